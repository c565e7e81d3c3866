#include "infini_train/src/text/json_reader.h"

#include <iterator>

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/tokenizer_file.h"

namespace infini_train::text {
namespace {

constexpr uint64_t kMaxScalar = uint64_t{16} << 20;
constexpr int64_t kMaxBuilt = 200'000;

// The file as nlohmann's parser wants it. The parser collects a text until it ends: one without an end is noticed here.
class Source {
public:
    explicit Source(const std::string &path) : file_(path), buffer_(size_t{1} << 16) { Refill(); }

    bool done() const { return filled_ == 0; }
    char current() const { return buffer_[position_]; }
    void Advance() {
        if (++position_ == filled_) {
            Refill();
        }
    }
    void NoteProgress() { since_progress_ = 0; }

private:
    void Refill() {
        filled_ = file_.Read(buffer_.data(), buffer_.size());
        position_ = 0;
        since_progress_ += filled_;
        if (since_progress_ > kMaxScalar) {
            FailToRead(file_.path(), "texts and numbers of less than 16 MiB", "a longer one");
        }
    }

    TokenizerFile file_;
    std::vector<char> buffer_;
    size_t position_ = 0;
    size_t filled_ = 0;
    uint64_t since_progress_ = 0;
};

class Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = char;

    explicit Iterator(Source *source) : source_(source) {}
    char operator*() const { return source_->current(); }
    Iterator &operator++() {
        source_->Advance();
        return *this;
    }
    // Compared with the end only.
    bool operator==(const Iterator &) const { return source_->done(); }
    bool operator!=(const Iterator &) const { return !source_->done(); }

private:
    Source *source_;
};

class Events : public nlohmann::json_sax<Json> {
public:
    Events(const std::string &path, Source *source, JsonHandler *handler)
        : path_(path), source_(source), handler_(handler) {}

    bool null() override { return Scalar(nullptr); }
    bool boolean(bool value) override { return Scalar(value); }
    bool number_integer(int64_t value) override { return Scalar(value); }
    bool number_unsigned(uint64_t value) override { return Scalar(value); }
    bool number_float(double value, const std::string &) override { return Scalar(value); }
    bool string(std::string &value) override { return Scalar(std::move(value)); }
    bool binary(Json::binary_t &) override { return false; }
    bool key(std::string &name) override {
        source_->NoteProgress();
        return handler_->Key(name);
    }
    bool start_object(size_t) override { return Begin(true); }
    bool start_array(size_t) override { return Begin(false); }
    bool end_object() override { return End(); }
    bool end_array() override { return End(); }
    bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &error) override {
        FailToRead(path_, "JSON", error.what());
    }

private:
    bool Scalar(Json value) {
        source_->NoteProgress();
        return handler_->Scalar(std::move(value));
    }
    bool Begin(bool is_object) {
        source_->NoteProgress();
        return handler_->Begin(is_object);
    }
    bool End() {
        source_->NoteProgress();
        return handler_->End();
    }

    const std::string &path_;
    Source *source_;
    JsonHandler *handler_;
};

}  // namespace

void ReadJson(const std::string &path, JsonHandler *handler) {
    Source source(path);
    Events events(path, &source, handler);
    Json::sax_parse(Iterator(&source), Iterator(&source), &events);
}

void JsonBuilder::Key(const std::string &name) {
    if (open_.back()->contains(name)) {
        FailToRead(path_, "each key of an object once", Quote(name) + " twice");
    }
    key_ = name;
}

void JsonBuilder::Scalar(Json value) {
    Add(std::move(value));
}

void JsonBuilder::Begin(bool is_object) {
    open_.push_back(Add(is_object ? Json::object() : Json::array()));
}

bool JsonBuilder::End() {
    open_.pop_back();
    return open_.empty();
}

Json *JsonBuilder::Add(Json value) {
    if (++count_ > kMaxBuilt) {
        FailToRead(path_, fmt::format("at most {} values besides the vocabulary and the merges", kMaxBuilt), "more");
    }
    if (open_.empty()) {
        root_ = std::move(value);
        return &root_;
    }
    Json &parent = *open_.back();
    if (parent.is_object()) {
        return &(parent[key_] = std::move(value));
    }
    parent.push_back(std::move(value));
    return &parent.back();
}

}  // namespace infini_train::text
