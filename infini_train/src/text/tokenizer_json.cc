#include <algorithm>
#include <map>
#include <set>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/bpe_model.h"
#include "infini_train/src/text/tokenizer_file.h"

// The format: https://github.com/huggingface/tokenizers

namespace infini_train::text {
namespace {

// The vocabulary and the merges go where they belong at once, other parts of interest into `parts`, by their path.
class FileHandler : public JsonHandler {
public:
    FileHandler(const std::string &path, BpeModel *model) : path_(path), model_(model) {}

    std::map<std::string, Json> parts;

    /// After the first reading: the merges came before the vocabulary and need a second one.
    bool again() const { return again_; }
    void BeginAgain() {
        again_ = false;
        second_ = true;
    }
    bool has_vocabulary() const { return has_vocabulary_; }
    bool has_merges() const { return has_merges_; }

    bool Key(std::string &name) override {
        if (where_ == Where::kOutside) {
            (depth_ == 1 ? root_key_ : model_key_) = name;
        } else if (where_ == Where::kVocabulary) {
            token_ = name;
        } else if (where_ == Where::kBuilding) {
            builder_.Key(name);
        }
        return true;
    }

    bool Scalar(Json value) override {
        if (where_ == Where::kOutside) {
            Enter();
            if (where_ == Where::kBuilding) {
                parts[Path()] = std::move(value);
            } else if (where_ != Where::kSkipping) {
                FailToRead(path_, ExpectedAt(), value.type_name());
            }
            where_ = Where::kOutside;
        } else if (where_ == Where::kBuilding) {
            builder_.Scalar(std::move(value));
        } else if (where_ == Where::kVocabulary) {
            AddToken(path_, token_, value, &model_->vocabulary);
        } else if (where_ == Where::kMerges) {
            AddPart(value);
        }
        return true;
    }

    bool Begin(bool is_object) override {
        if (where_ == Where::kOutside) {
            Enter();
            if ((where_ == Where::kOutside || where_ == Where::kVocabulary) != is_object &&
                (where_ == Where::kOutside || where_ == Where::kVocabulary || where_ == Where::kMerges)) {
                FailToRead(path_, ExpectedAt(), is_object ? "an object" : "an array");
            }
            start_ = depth_;
        } else if (where_ == Where::kVocabulary) {
            FailToRead(path_, "a whole number as the id of token " + Quote(token_),
                       is_object ? "an object" : "an array");
        } else if (where_ == Where::kMerges && (is_object || depth_ != start_ + 1)) {
            FailToRead(path_, "two tokens as a merge", is_object ? "an object" : "an array within it");
        }
        if (where_ == Where::kBuilding) {
            builder_.Begin(is_object);
        }
        ++depth_;
        return true;
    }

    bool End() override {
        --depth_;
        const bool at_end = depth_ == start_;
        if (where_ == Where::kBuilding && builder_.End()) {
            parts[Path()] = builder_.Take();
            where_ = Where::kOutside;
        } else if (where_ == Where::kMerges && !at_end) {
            if (merge_.size() != 2) {
                FailToRead(path_, "two tokens as a merge", fmt::format("{}", merge_.size()));
            }
            AddMerge(path_, merge_[0], merge_[1], model_);
            merge_.clear();
        } else if (where_ != Where::kOutside && where_ != Where::kBuilding && at_end) {
            has_vocabulary_ |= where_ == Where::kVocabulary;
            has_merges_ |= where_ == Where::kMerges;
            where_ = Where::kOutside;
        }
        return true;
    }

private:
    enum class Where { kOutside, kBuilding, kSkipping, kVocabulary, kMerges };

    std::string Path() const { return depth_ <= 1 ? root_key_ : "model." + model_key_; }

    // Decides what to do with the value that begins.
    void Enter() {
        static const std::set<std::string> kBuilt = {"added_tokens",
                                                     "normalizer",
                                                     "pre_tokenizer",
                                                     "model.type",
                                                     "model.dropout",
                                                     "model.unk_token",
                                                     "model.fuse_unk",
                                                     "model.continuing_subword_prefix",
                                                     "model.end_of_word_suffix",
                                                     "model.byte_fallback",
                                                     "model.ignore_merges"};
        if (depth_ == 0) {
            return;  // The root.
        }
        const std::string path = Path();
        const bool is_model = depth_ == 1 && path == "model";
        const bool is_vocabulary = path == "model.vocab";
        const bool is_merges = path == "model.merges";
        const bool is_built = kBuilt.contains(path);
        if ((is_model || is_vocabulary || is_merges || is_built) && !second_ && !seen_.insert(path).second) {
            FailToRead(path_, "each key of an object once", Quote(path) + " twice");
        }
        if (is_model) {
            return;
        }
        where_ = Where::kSkipping;
        if (is_vocabulary && !second_) {
            where_ = Where::kVocabulary;
        } else if (is_merges && (second_ || has_vocabulary_)) {
            where_ = Where::kMerges;
        } else if (is_merges) {
            again_ = true;
        } else if (is_built && !second_) {
            where_ = Where::kBuilding;
            builder_ = JsonBuilder(path_);
        }
    }

    std::string ExpectedAt() const {
        return depth_ == 0 ? "an object"
                           : fmt::format("{} as '{}'", where_ == Where::kMerges ? "an array" : "an object", Path());
    }

    // A merge is one text with a space, or an array of two.
    void AddPart(const Json &value) {
        if (!value.is_string()) {
            FailToRead(path_, "texts as merges", value.type_name());
        }
        const auto &text = value.get_ref<const std::string &>();
        if (depth_ == start_ + 2) {
            merge_.push_back(text);
            if (merge_.size() > 2) {
                FailToRead(path_, "two tokens as a merge", "more");
            }
            return;
        }
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
            FailToRead(path_, "two tokens and a space between them as a merge", Quote(text));
        }
        AddMerge(path_, std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1), model_);
    }

    const std::string &path_;
    BpeModel *model_;
    Where where_ = Where::kOutside;
    int64_t depth_ = 0;   // How many objects and arrays are open.
    int64_t start_ = -1;  // How many were when the current part began.
    std::string root_key_;
    std::string model_key_;
    std::string token_;
    std::vector<std::string> merge_;
    std::set<std::string> seen_;
    JsonBuilder builder_{""};
    bool has_vocabulary_ = false;
    bool has_merges_ = false;
    bool again_ = false;
    bool second_ = false;
};

// What is read from the parts.
class PartsReader {
public:
    PartsReader(const std::string &path, const std::map<std::string, Json> &parts, BpeModel *model)
        : path_(path), parts_(parts), model_(model) {}

    void Read() {
        CheckModel();
        for (const Json &token : ArrayOf(Part("added_tokens"), "added_tokens")) {
            ReadAddedToken(token);
        }
        model_->fuse_unknown = Flag(Part("model.fuse_unk"), "fuse_unk", false);
        model_->ignore_merges = Flag(Part("model.ignore_merges"), "ignore_merges", false);
        if (const Json &unknown = Part("model.unk_token"); !unknown.is_null()) {
            model_->unknown = FindUnknown(Text(unknown, "unk_token"));
        }
        if (!Part("normalizer").is_null()) {
            Refuse("a normalizer", Part("normalizer"));
        }
        const Json &pre_tokenizer = Part("pre_tokenizer");
        ReadPreTokenizer(pre_tokenizer);
        if (!byte_level_) {
            Refuse("a pre_tokenizer without ByteLevel", pre_tokenizer);
        }
        if (model_->add_prefix_space && steps_ > 1) {
            Refuse("add_prefix_space together with other pre-tokenizers", pre_tokenizer);
        }
        model_->pre_tokenizer = pre_tokenizer.dump();
    }

private:
    [[noreturn]] void Refuse(const std::string &what, const Json &found) const {
        Throw<NotImplementedError>("LoadTokenizer: {}: {} isn't supported: {}", path_, what,
                                   found.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100));
    }
    [[noreturn]] void Fail(const std::string &expected, const Json &found) const {
        FailToRead(path_, expected, found.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100));
    }

    const Json &Part(const std::string &path) const {
        static const Json kNull;
        const auto found = parts_.find(path);
        return found == parts_.end() ? kNull : found->second;
    }
    const Json &Member(const Json &object, const char *name) const {
        static const Json kNull;
        if (!object.is_object()) {
            Fail(fmt::format("an object with '{}'", name), object);
        }
        const auto found = object.find(name);
        return found == object.end() ? kNull : *found;
    }
    std::string Text(const Json &value, const char *name) const {
        if (!value.is_string()) {
            Fail(fmt::format("a text as '{}'", name), value);
        }
        return value.get<std::string>();
    }
    bool Flag(const Json &value, const char *name, bool otherwise) const {
        if (!value.is_null() && !value.is_boolean()) {
            Fail(fmt::format("true or false as '{}'", name), value);
        }
        return value.is_null() ? otherwise : value.get<bool>();
    }
    Json ArrayOf(const Json &value, const char *name) const {
        if (!value.is_null() && !value.is_array()) {
            Fail(fmt::format("an array as '{}'", name), value);
        }
        return value.is_null() ? Json::array() : value;
    }

    void CheckModel() const {
        if (const Json &type = Part("model.type"); !type.is_null() && type != "BPE") {
            Refuse("a model of this type", type);
        }
        for (const char *name : {"model.continuing_subword_prefix", "model.end_of_word_suffix"}) {
            if (!Part(name).is_null() && Part(name) != "") {
                Refuse(name, Part(name));
            }
        }
        if (const Json &dropout = Part("model.dropout"); !dropout.is_null() && dropout != 0.0) {
            Refuse("dropout", dropout);
        }
        if (Flag(Part("model.byte_fallback"), "byte_fallback", false)) {
            Refuse("byte_fallback", Part("model.byte_fallback"));
        }
    }

    void ReadAddedToken(const Json &token) {
        const Json &id = Member(token, "id");
        const std::string text = Text(Member(token, "content"), "content");
        if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(kMaxVocabSize) || text.empty()) {
            Fail(fmt::format("an added token with a content and an id below {}", kMaxVocabSize), token);
        }
        for (const char *name : {"single_word", "lstrip", "rstrip"}) {
            if (Flag(Member(token, name), name, false)) {
                Refuse(fmt::format("an added token with {}", name), token);
            }
        }
        const auto number = id.get<TokenId>();
        const auto known = model_->vocabulary.Find(text);
        if (known.has_value() ? *known != number : model_->vocabulary.Has(number)) {
            Fail("an added token that agrees with the vocabulary", token);
        }
        if (!texts_.insert(text).second || !ids_.insert(number).second) {
            Fail("each added token and its id once", token);
        }
        model_->added.push_back({number, text, Flag(Member(token, "special"), "special", false)});
    }

    TokenId FindUnknown(const std::string &text) const {
        for (const AddedToken &token : model_->added) {
            if (token.text == text) {
                return token.id;
            }
        }
        const auto id = model_->vocabulary.Find(text);
        if (!id.has_value()) {
            Fail("an unk_token of the vocabulary", text);
        }
        return *id;
    }

    void ReadPreTokenizer(const Json &step) {
        if (step.is_null()) {
            return;
        }
        const std::string type = Text(Member(step, "type"), "type");
        if (type == "Sequence") {
            for (const Json &part : ArrayOf(Member(step, "pretokenizers"), "pretokenizers")) {
                ReadPreTokenizer(part);
            }
            return;
        }
        if (byte_level_) {
            Refuse("a pre-tokenizer behind ByteLevel", step);
        }
        ++steps_;
        if (type == "ByteLevel") {
            byte_level_ = true;
            model_->add_prefix_space = Flag(Member(step, "add_prefix_space"), "add_prefix_space", true);
            if (Flag(Member(step, "use_regex"), "use_regex", true)) {
                model_->splitter.AddGpt2();
            }
        } else if (type == "Digits") {
            const bool each = Flag(Member(step, "individual_digits"), "individual_digits", false);
            model_->splitter.AddPattern(each ? "\\p{N}" : "\\p{N}+");
        } else if (type == "Split") {
            ReadSplit(step);
        } else {
            Refuse("this pre-tokenizer", step);
        }
    }

    void ReadSplit(const Json &step) {
        const Json &pattern = Member(step, "pattern");
        const bool is_literal = Member(pattern, "Regex").is_null();
        std::string expression =
            Text(Member(pattern, is_literal ? "String" : "Regex"), is_literal ? "String" : "Regex");
        if (is_literal) {
            std::string escaped;
            for (const char c : expression) {
                const bool plain =
                    (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c & 0x80);
                escaped += plain ? std::string(1, c) : fmt::format("\\x{{{:x}}}", static_cast<unsigned char>(c));
            }
            expression = escaped;
        }
        const bool invert = Flag(Member(step, "invert"), "invert", false);
        const std::string behavior = Text(Member(step, "behavior"), "behavior");
        if (behavior != "Isolated" && behavior != "Removed") {
            Refuse("a Split of this behavior", step);
        }
        const bool remove = behavior == "Removed";
        try {
            model_->splitter.AddPattern(expression, !remove || invert, !remove || !invert);
        } catch (const ValueError &error) {
            FailToRead(path_, "a regular expression", error.what());
        }
    }

    const std::string &path_;
    const std::map<std::string, Json> &parts_;
    BpeModel *model_;
    std::set<std::string> texts_;
    std::set<TokenId> ids_;
    bool byte_level_ = false;
    int steps_ = 0;
};

}  // namespace

std::unique_ptr<BpeModel> ReadTokenizerJson(const std::string &path) {
    auto model = std::make_unique<BpeModel>();
    model->vocabulary.Reserve(TokenizerFile(path).size());
    FileHandler handler(path, model.get());
    ReadJson(path, &handler);
    if (handler.again() && handler.has_vocabulary()) {
        handler.BeginAgain();
        ReadJson(path, &handler);
    }
    if (!handler.has_vocabulary() || !handler.has_merges()) {
        FailToRead(path, "a model with 'vocab' and 'merges'", handler.has_vocabulary() ? "no 'merges'" : "no 'vocab'");
    }
    PartsReader(path, handler.parts, model.get()).Read();
    TokensToBytes(path, model.get());
    return model;
}

}  // namespace infini_train::text
