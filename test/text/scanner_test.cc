#include <set>

#include "infini_train/src/text/gpt2_scanner.h"
#include "infini_train/src/text/regex.h"
#include "infini_train/src/text/splitter.h"
#include "test/text/files.h"

namespace infini_train::text {
namespace {

using Words = std::vector<std::string>;

Words Scan(const std::string &text) {
    Words words;
    Gpt2Scanner(text).ForEachWord([&](const char *word, size_t bytes) { words.emplace_back(word, bytes); });
    return words;
}

// The same by PCRE2: each stretch of valid UTF-8 alone, each of other bytes as one word.
Words Search(const std::string &text) {
    static const Regex regex(kGpt2Pattern);
    Regex::Matcher matcher(regex);
    Words words;
    const char *const end = text.data() + text.size();
    for (const char *at = text.data(); at < end;) {
        const std::string valid(at, EndOfValid(at, end));
        Regex::Match match{};
        for (size_t from = 0; from < valid.size() && matcher.Find(valid, from, &match); from = match.end) {
            EXPECT_EQ(match.begin, from);
            words.push_back(valid.substr(match.begin, match.end - match.begin));
        }
        at += valid.size();
        const char *const next = EndOfInvalid(at, end);
        if (next > at) {
            words.emplace_back(at, next);
        }
        at = next;
    }
    return words;
}

TEST(Gpt2Scanner, SplitsAsThePatternSays) {
    EXPECT_EQ(Scan("Hello world's 12 cats, isn't  it?\n\n"),
              (Words{"Hello", " world", "'s", " 12", " cats", ",", " isn", "'t", " ", " it", "?", "\n\n"}));
    EXPECT_EQ(Scan("a  \n b"), (Words{"a", "  \n", " b"}));
    EXPECT_EQ(Scan("x\n=y"), (Words{"x", "\n", "=", "y"}));
    EXPECT_EQ(Scan("we'LL 's"), (Words{"we", "'", "LL", " '", "s"}));
    EXPECT_EQ(Scan("a \xFF\xFE b"), (Words{"a", " ", "\xFF\xFE", " b"}));
    EXPECT_EQ(Scan(""), Words());
}

TEST(Gpt2Scanner, EqualsPcre2OnRandomText) {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        const std::string text = RandomText(&random, 1 + random() % 24, i % 2 == 0);
        ASSERT_EQ(Scan(text), Search(text)) << "text " << i << ": " << ::testing::PrintToString(text);
    }
    // Any code points, and any bytes.
    for (int i = 0; i < 2000; ++i) {
        std::string text;
        for (int j = 0; j < 40; ++j) {
            const uint32_t code_point = random() % (random() % 2 == 0 ? 0x3000 : kMaxCodePoint + 1);
            AppendUtf8(IsSurrogate(code_point) ? ' ' : code_point, &text);
            text += i % 2 == 0 ? "" : std::string(1, static_cast<char>(random()));
        }
        ASSERT_EQ(Scan(text), Search(text)) << ::testing::PrintToString(text);
    }
}

TEST(CharClasses, EqualPcre2ForEveryCharacter) {
    const Regex letter(R"(\p{L})"), number(R"(\p{N})"), space(R"(\s)");
    Regex::Matcher letters(letter), numbers(number), spaces(space);
    std::set<uint32_t> found_spaces;
    for (uint32_t code_point = 0; code_point <= kMaxCodePoint; ++code_point) {
        if (IsSurrogate(code_point) || (code_point > 0x32000 && code_point % 101 != 0)) {
            continue;  // Behind the assigned planes a sample is enough.
        }
        std::string text;
        AppendUtf8(code_point, &text);
        Regex::Match match{};
        const CharClass expected = letters.Find(text, 0, &match)   ? CharClass::kLetter
                                   : numbers.Find(text, 0, &match) ? CharClass::kNumber
                                   : spaces.Find(text, 0, &match)  ? CharClass::kSpace
                                                                   : CharClass::kOther;
        ASSERT_EQ(CharClasses::Get().Of(code_point), expected) << std::hex << code_point;
        if (expected == CharClass::kSpace) {
            found_spaces.insert(code_point);
        }
    }
    // White_Space of the Unicode Character Database, the same since version 6.3; U+180E isn't one.
    EXPECT_EQ(found_spaces, (std::set<uint32_t>{0x9,    0xA,    0xB,    0xC,    0xD,    0x20,   0x85,   0xA0,   0x1680,
                                                0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                                0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}));
}

Words SplitBy(const Splitter &splitter, const std::string &text) {
    Words words;
    splitter.ForEachWord(text, [&](const char *word, size_t bytes) { words.emplace_back(word, bytes); });
    return words;
}

TEST(Splitter, KeepsMatchesGapsOrBoth) {
    Splitter both, matches, gaps, empty;
    both.AddPattern("[0-9]+");
    matches.AddPattern("[0-9]+", true, false);
    gaps.AddPattern("[0-9]+", false, true);
    EXPECT_EQ(SplitBy(both, "ab12c3"), (Words{"ab", "12", "c", "3"}));
    EXPECT_EQ(SplitBy(matches, "ab12c3"), (Words{"12", "3"}));
    EXPECT_EQ(SplitBy(gaps, "ab12c3"), (Words{"ab", "c"}));
    empty.AddPattern("x*");  // Matches nothing between any two characters.
    EXPECT_EQ(SplitBy(empty, "aéxx"), (Words{"a", "é", "xx"}));
    both.AddPattern("b");
    EXPECT_EQ(SplitBy(both, "ab1\xFFz"), (Words{"a", "b", "1", "\xFF", "z"}));
}

TEST(Regex, TellsWhatIsWrong) {
    EXPECT_TRUE(Contains(Thrown<ValueError>([] { Regex("a(b"); }), "missing closing parenthesis at offset 3"));
    const Regex slow("^(a+)+$");
    Regex::Matcher matcher(slow);
    Regex::Match match{};
    const std::string text = std::string(5000, 'a') + "b";
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { matcher.Find(text, 0, &match); }), "limit"));
}

}  // namespace
}  // namespace infini_train::text
