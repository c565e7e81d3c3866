#include "example/language_model/flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "infini_train/include/device.h"

DEFINE_string(text, "",
              "a text to learn; its last --val_fraction of the characters is kept for validation. kjv: the King James "
              "text of Debian's package bible-kjv");
DEFINE_double(val_fraction, 0.1, "share of --text for validation; 0: none");
DEFINE_string(input_bin, "", "files of tokens to learn: paths or patterns such as 'train_*.bin', with commas between");
DEFINE_string(input_val_bin, "", "files of tokens for validation");
DEFINE_string(token_format, "llmc", "of those files: llmc (header checked), or uint16 or uint32 (tokens only)");
DEFINE_string(tokenizer, "",
              "char (the characters of --text), or the file or folder of a tokenizer: GPT-2's encoder.json and "
              "vocab.bpe, tokenizer.json, llama2.c's tokenizer.bin. Empty: what lies beside --load, else char");
DEFINE_string(tokenizer_bin, "", "another name for --tokenizer");
DEFINE_int64(stride, 0,
             "tokens from one window to the next; 0: --sequence_length for --input_bin, 1 for --text (more from 4 "
             "million tokens "
             "on)");
DEFINE_bool(shuffle, true, "the windows in an order that --seed decides; --noshuffle: as they stand");
DEFINE_int32(num_workers, 1, "threads that make batches ahead; the batches don't depend on it");
DEFINE_int32(prefetch, 2, "batches that each of them makes ahead");

DEFINE_string(model, "",
              "a size by name; gpt2: d2 to d48 by depth, gpt2, gpt2-medium, gpt2-large, gpt2-xl; llama: stories260k, "
              "stories15m, stories42m, stories110m, llama-7b. Empty: the sizes below");
DEFINE_int64(n_layer, 4, "blocks");
DEFINE_int64(n_head, 4, "heads of attention");
DEFINE_int64(n_kv_head, 0, "heads of keys and values; 0: --n_head");
DEFINE_int64(n_embd, 128, "width");
DEFINE_int64(n_hidden, 0, "width inside of a block's MLP; 0: 4 times --n_embd (gpt2), about 8/3 of it (llama)");
DEFINE_int64(vocab_size, 0, "0: that of the tokenizer");
DEFINE_bool(bias, true, "GPT-2's biases in linear layers and norms");
DEFINE_double(dropout, 0, "share of activations that is dropped while training");
DEFINE_string(load, "",
              "weights to begin with: a Hugging Face folder or .safetensors, llm.c's or llama2.c's .bin, or a folder "
              "of --checkpoint_dir");
DEFINE_string(llmc_filepath, "", "another name for --load");
DEFINE_string(save, "",
              "folder for the trained model, which Hugging Face's transformers reads; with --patience the best one");

DEFINE_int64(batch_size, 12, "sequences in a batch");
DEFINE_int64(sequence_length, 64, "tokens in a sequence; at most what the model can look at");
DEFINE_int64(total_batch_size, 0, "tokens in a step, gathered from several batches; 0: those of one batch");
DEFINE_int64(num_iteration, 2000, "steps; 0 only validates");
DEFINE_int64(max_tokens, 0, "tokens to train on, in place of --num_iteration");
DEFINE_double(learning_rate, 0,
              "the highest; 0: 3e-3 up to 128 wide, 1e-3 below 768, 6e-4 from there on, 3e-5 for a model of --load");
DEFINE_string(lr_schedule, "cosine",
              "after the warm-up: cosine or linear (down to --min_lr), constant, step, exponential, one_cycle (with a "
              "warm-up of its own), or plateau (by the validation loss)");
DEFINE_int64(warmup_iters, -1, "steps in which the rate rises; -1: a tenth of the steps, at most 100");
DEFINE_int64(lr_decay_iters, 0, "step at which it has fallen; 0: the last one");
DEFINE_double(min_lr, -1, "where it falls to; -1: a tenth of --learning_rate");
DEFINE_int64(lr_step_size, 500, "steps between two falls of step");
DEFINE_double(lr_gamma, 0.5, "factor of a fall of step and plateau; exponential: of --lr_step_size steps");
DEFINE_double(weight_decay, 0.1, "AdamW's, for matrices and embeddings; biases and norms have none");
DEFINE_double(beta1, 0.9, "AdamW's");
DEFINE_double(beta2, 0.99, "AdamW's; 0.95 is common for large batches");
DEFINE_double(grad_clip, 1, "norm to which the gradients are limited; 0: no limit");
DEFINE_string(dtype, "float32",
              "of weights and activations: float32, or bfloat16 with float32 copies in the optimizer");
DEFINE_string(
    autocast, "none",
    "bf16 or fp16: products are computed in that, parameters and everything delicate stay float32; fp16 scales "
    "the loss so that small gradients don't vanish. none: everything in --dtype");
DEFINE_bool(checkpoint_activations, false, "compute each block again in the backward pass: less memory, more time");
DEFINE_uint64(seed, 42, "of weights, order, dropout and samples; the same seed gives the same run, on any --threads");

DEFINE_int64(val_loss_every, 250, "steps between two validations; 0: only at the end");
DEFINE_int64(val_max_steps, 0, "batches of a validation; 0: all of the data");
DEFINE_int64(patience, 0, "validations without a better loss after which training ends; 0: never");
DEFINE_int64(sample_every, 0, "steps between two samples; 0: only at the end");
DEFINE_int64(freq_generate_txt, 0, "another name for --sample_every");

DEFINE_string(checkpoint_dir, "", "folder for checkpoints, from which training goes on bit for bit");
DEFINE_int64(checkpoint_every, 500, "steps between two checkpoints; one is written at the end and on Ctrl-C, too");
DEFINE_int32(keep, 3, "checkpoints to keep; 0: all");
DEFINE_bool(resume, false, "go on from the latest checkpoint; flags that aren't given are taken from it");

DEFINE_bool(generate, false, "don't train, write text with the model of --load or --checkpoint_dir");
DEFINE_string(prompt, "", "what samples begin with");
DEFINE_int64(text_length, 200, "tokens of a sample");
DEFINE_int32(num_samples, 1, "how many");
DEFINE_double(temperature, 0.8, "below 1: likelier tokens; above: more surprise; 0: --greedy");
DEFINE_int64(top_k, 0, "only from the k likeliest tokens; 0: all");
DEFINE_double(top_p, 1, "only from the likeliest tokens that have this probability together");
DEFINE_double(repetition_penalty, 1, "above 1: tokens that were there become less likely");
DEFINE_bool(greedy, false, "always the likeliest token");
DEFINE_int64(num_beams, 1, "above 1: beam search with so many");
DEFINE_double(length_penalty, 1, "of beam search: a sequence's score is divided by its length to the power of this");

DEFINE_string(device, "cpu", "where to compute: cpu, or cuda where the library was built with it");
DEFINE_bool(cuda_graph, false,
            "on a GPU: record forward and backward once and replay them, for models so small that the "
            "CPU can't keep up with launching their kernels");
DEFINE_int32(threads, 0, "CPU threads; 0: all cores. The results don't depend on it");
DEFINE_string(out, ".", "folder for history.csv and history.png");
DEFINE_string(tensorboard, "", "folder for `tensorboard --logdir`");
DEFINE_bool(summary, false, "show the model's layers, shapes, parameters, memory and FLOPs first");
DEFINE_string(profile, "", "file for a trace of 10 steps after the first 5, for ui.perfetto.dev; also prints tables");
DEFINE_bool(nan_guard, false, "stop at the first value that isn't finite and say which operator made it");

namespace infini_train::example {
namespace {

const FlagGroup &GroupOf(const std::string &title) {
    static const std::vector<FlagGroup> groups = LanguageModelFlagGroups();
    return *std::find_if(groups.begin(), groups.end(), [&](const FlagGroup &group) { return group.title == title; });
}

// A run may go on with other values of these.
bool MayChange(const std::string &flag) {
    static const std::vector<std::string> kFree = {"num_iteration", "max_tokens", "num_workers",
                                                   "prefetch",      "save",       "val_loss_every",
                                                   "val_max_steps", "patience",   "sample_every"};
    return std::find(kFree.begin(), kFree.end(), flag) != kFree.end();
}

void TakeOtherName(const char *other, const char *flag) {
    gflags::CommandLineFlagInfo info;
    gflags::GetCommandLineFlagInfo(other, &info);
    if (info.is_default) {
        return;
    }
    if (IsGiven(flag)) {
        throw UsageError(fmt::format("--{} is another name for --{}: give one of them", other, flag));
    }
    gflags::SetCommandLineOption(flag, info.current_value.c_str());
}

void CheckData() {
    RequireOneOf("token_format", FLAGS_token_format, {"llmc", "uint16", "uint32"});
    RequireInRange("val_fraction", FLAGS_val_fraction, 0, 0.9);
    RequireNonNegative("stride", static_cast<double>(FLAGS_stride));
    RequireInRange("num_workers", FLAGS_num_workers, 0, 256);
    RequireInRange("prefetch", FLAGS_prefetch, 1, 1024);
    if (!FLAGS_text.empty() && !(FLAGS_input_bin.empty() && FLAGS_input_val_bin.empty())) {
        throw UsageError("give either --text or --input_bin, not both");
    }
    if (FLAGS_text != "kjv") {
        RequireReadable("text", FLAGS_text);
    }
    if (FLAGS_input_bin.empty() && !FLAGS_input_val_bin.empty()) {
        throw UsageError("expected --input_bin with --input_val_bin");
    }
}

void CheckModel() {
    RequirePositive("n_layer", static_cast<double>(FLAGS_n_layer));
    RequirePositive("n_head", static_cast<double>(FLAGS_n_head));
    RequirePositive("n_embd", static_cast<double>(FLAGS_n_embd));
    RequireNonNegative("n_kv_head", static_cast<double>(FLAGS_n_kv_head));
    RequireNonNegative("n_hidden", static_cast<double>(FLAGS_n_hidden));
    RequireNonNegative("vocab_size", static_cast<double>(FLAGS_vocab_size));
    RequireInRange("dropout", FLAGS_dropout, 0, 0.99);
    if (FLAGS_n_embd % FLAGS_n_head != 0) {
        throw UsageError(
            fmt::format("flag --n_embd: expected a multiple of --n_head, {}, got {}", FLAGS_n_head, FLAGS_n_embd));
    }
    if (FLAGS_n_kv_head > 0 && FLAGS_n_head % FLAGS_n_kv_head != 0) {
        throw UsageError(
            fmt::format("flag --n_kv_head: expected a divisor of --n_head, {}, got {}", FLAGS_n_head, FLAGS_n_kv_head));
    }
    if (!FLAGS_model.empty() && !FLAGS_load.empty()) {
        throw UsageError("--load brings its sizes along: leave --model out");
    }
    RequireOneOf("dtype", FLAGS_dtype, {"float32", "bfloat16"});
    RequireOneOf("autocast", FLAGS_autocast, {"none", "bf16", "fp16"});
    if (FLAGS_autocast != "none" && FLAGS_dtype != "float32") {
        throw UsageError(fmt::format("flag --autocast: goes with --dtype=float32, got '{}'", FLAGS_dtype));
    }
}

void CheckTraining() {
    RequirePositive("batch_size", static_cast<double>(FLAGS_batch_size));
    RequirePositive("sequence_length", static_cast<double>(FLAGS_sequence_length));
    RequireNonNegative("total_batch_size", static_cast<double>(FLAGS_total_batch_size));
    if (FLAGS_total_batch_size % (FLAGS_batch_size * FLAGS_sequence_length) != 0) {
        throw UsageError(fmt::format(
            "flag --total_batch_size: expected a multiple of --batch_size times --sequence_length, {}, got {}",
            FLAGS_batch_size * FLAGS_sequence_length, FLAGS_total_batch_size));
    }
    RequireNonNegative("num_iteration", static_cast<double>(FLAGS_num_iteration));
    RequireNonNegative("max_tokens", static_cast<double>(FLAGS_max_tokens));
    if (IsGiven("num_iteration") && FLAGS_max_tokens > 0) {
        throw UsageError("give either --num_iteration or --max_tokens, not both");
    }
    RequireNonNegative("learning_rate", FLAGS_learning_rate);
    RequireOneOf("lr_schedule", FLAGS_lr_schedule,
                 {"cosine", "linear", "constant", "step", "exponential", "one_cycle", "plateau"});
    RequireInRange("warmup_iters", static_cast<double>(FLAGS_warmup_iters), -1, 1e9);
    RequireNonNegative("lr_decay_iters", static_cast<double>(FLAGS_lr_decay_iters));
    RequirePositive("lr_step_size", static_cast<double>(FLAGS_lr_step_size));
    RequireInRange("lr_gamma", FLAGS_lr_gamma, 1e-6, 0.999999);
    RequireNonNegative("weight_decay", FLAGS_weight_decay);
    RequireInRange("beta1", FLAGS_beta1, 0, 0.999999);
    RequireInRange("beta2", FLAGS_beta2, 0, 0.999999);
    RequireNonNegative("grad_clip", FLAGS_grad_clip);
}

void CheckCourse() {
    RequireNonNegative("val_loss_every", static_cast<double>(FLAGS_val_loss_every));
    RequireNonNegative("val_max_steps", static_cast<double>(FLAGS_val_max_steps));
    RequireNonNegative("patience", static_cast<double>(FLAGS_patience));
    RequireNonNegative("sample_every", static_cast<double>(FLAGS_sample_every));
    RequirePositive("checkpoint_every", static_cast<double>(FLAGS_checkpoint_every));
    RequireNonNegative("keep", FLAGS_keep);
    if (FLAGS_resume && FLAGS_checkpoint_dir.empty()) {
        throw UsageError("expected --checkpoint_dir with --resume");
    }
    RequireInRange("threads", FLAGS_threads, 0, 1024);
    RequireWritable("profile", FLAGS_profile);
}

void CheckSampling() {
    RequirePositive("text_length", static_cast<double>(FLAGS_text_length));
    RequirePositive("num_samples", FLAGS_num_samples);
    RequireInRange("temperature", FLAGS_temperature, 0, 100);
    RequireNonNegative("top_k", static_cast<double>(FLAGS_top_k));
    RequireInRange("top_p", FLAGS_top_p, 1e-9, 1);
    RequirePositive("repetition_penalty", FLAGS_repetition_penalty);
    RequireInRange("num_beams", static_cast<double>(FLAGS_num_beams), 1, 1024);
    if (FLAGS_num_beams > 1 && (IsGiven("temperature") || IsGiven("top_k") || IsGiven("top_p"))) {
        throw UsageError("beam search takes the likeliest: leave --temperature, --top_k and --top_p out");
    }
}

void CheckMachine() {
    if (!FLAGS_cuda_graph) {
        return;
    }
    if (Device::FromString(FLAGS_device).IsCPU()) {
        throw UsageError(fmt::format("flag --cuda_graph: needs a GPU, --device=cuda, got '{}'", FLAGS_device));
    }
    if (FLAGS_autocast == "fp16") {
        throw UsageError("flag --cuda_graph: a graph would keep the scale of --autocast=fp16; use bf16");
    }
    if (FLAGS_nan_guard || !FLAGS_profile.empty()) {
        throw UsageError(
            "flag --cuda_graph: hooks don't run when a graph is replayed, so neither --nan_guard nor "
            "--profile goes with it");
    }
}

}  // namespace

std::vector<FlagGroup> LanguageModelFlagGroups() {
    return {{"Data",
             {"text", "val_fraction", "input_bin", "input_val_bin", "token_format", "tokenizer", "tokenizer_bin",
              "stride", "shuffle", "num_workers", "prefetch"}},
            {"Model",
             {"model", "n_layer", "n_head", "n_kv_head", "n_embd", "n_hidden", "vocab_size", "bias", "dropout", "load",
              "llmc_filepath", "save"}},
            {"Training",
             {"batch_size",
              "sequence_length",
              "total_batch_size",
              "num_iteration",
              "max_tokens",
              "learning_rate",
              "lr_schedule",
              "warmup_iters",
              "lr_decay_iters",
              "min_lr",
              "lr_step_size",
              "lr_gamma",
              "weight_decay",
              "beta1",
              "beta2",
              "grad_clip",
              "dtype",
              "autocast",
              "checkpoint_activations",
              "seed"}},
            {"On the way", {"val_loss_every", "val_max_steps", "patience", "sample_every", "freq_generate_txt"}},
            {"Checkpoints", {"checkpoint_dir", "checkpoint_every", "keep", "resume"}},
            {"Writing text",
             {"generate", "prompt", "text_length", "num_samples", "temperature", "top_k", "top_p", "repetition_penalty",
              "greedy", "num_beams", "length_penalty"}},
            {"Machine", {"device", "cuda_graph", "threads"}},
            {"Output", {"out", "tensorboard", "summary", "profile"}},
            {"Checks", {"nan_guard"}}};
}

void CheckLanguageModelFlags() {
    TakeOtherName("tokenizer_bin", "tokenizer");
    TakeOtherName("llmc_filepath", "load");
    TakeOtherName("freq_generate_txt", "sample_every");
    CheckData();
    CheckModel();
    CheckTraining();
    CheckCourse();
    CheckSampling();
    CheckMachine();
}

bool IsGiven(const std::string &flag) {
    gflags::CommandLineFlagInfo info;
    return gflags::GetCommandLineFlagInfo(flag.c_str(), &info) && !info.is_default;
}

std::map<std::string, std::string> TrainingFlags() {
    std::map<std::string, std::string> values;
    for (const char *title : {"Data", "Model", "Training", "On the way"}) {
        for (const std::string &flag : GroupOf(title).flags) {
            gflags::GetCommandLineOption(flag.c_str(), &values[flag]);
        }
    }
    return values;
}

void AdoptFlags(const std::map<std::string, std::string> &saved) {
    const bool length_is_given = IsGiven("num_iteration") || IsGiven("max_tokens");
    for (const auto &[flag, value] : saved) {
        std::string now;
        if (length_is_given && (flag == "num_iteration" || flag == "max_tokens")) {
            continue;
        }
        if (!gflags::GetCommandLineOption(flag.c_str(), &now) || now == value) {
            continue;
        }
        if (!IsGiven(flag)) {
            gflags::SetCommandLineOption(flag.c_str(), value.c_str());
        } else if (!MayChange(flag)) {
            throw UsageError(
                fmt::format("flag --{}: the checkpoint's run has '{}', got '{}'; to begin another run from "
                            "its weights, --load the checkpoint",
                            flag, value, now));
        }
    }
}

std::optional<DataType> Autocast() {
    return FLAGS_autocast == "none"   ? std::nullopt
           : FLAGS_autocast == "bf16" ? std::optional(DataType::kBFLOAT16)
                                      : std::optional(DataType::kFLOAT16);
}

int64_t TokensPerStep() {
    return FLAGS_total_batch_size > 0 ? FLAGS_total_batch_size : FLAGS_batch_size * FLAGS_sequence_length;
}

int64_t AccumulationSteps() {
    return TokensPerStep() / (FLAGS_batch_size * FLAGS_sequence_length);
}

int64_t NumIterations() {
    return FLAGS_max_tokens > 0 ? (FLAGS_max_tokens + TokensPerStep() - 1) / TokensPerStep() : FLAGS_num_iteration;
}

std::vector<std::string> SplitList(const std::string &text) {
    std::vector<std::string> parts;
    size_t begin = 0;
    while (begin <= text.size()) {
        const size_t end = std::min(text.find(',', begin), text.size());
        if (end > begin) {
            parts.push_back(text.substr(begin, end - begin));
        }
        begin = end + 1;
    }
    return parts;
}

}  // namespace infini_train::example
