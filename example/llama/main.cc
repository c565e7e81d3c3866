// Trains a LLaMA on a text, fine-tunes it, and lets it write. `llama --help` lists the flags.

#include "example/language_model/model_files.h"
#include "example/language_model/program.h"

int main(int argc, char **argv) {
    using namespace infini_train::example;
    ModelFamily family;
    family.name = "llama";
    family.summary = "Trains a LLaMA on a text, from nothing or from published weights, and lets it write.";
    family.is_llama = true;
    family.vocab_size = 32000;
    family.presets = {"stories260k", "stories15m", "stories42m", "stories110m", "llama-7b"};
    family.preset = LlamaPreset;
    family.examples = {"llama --text=input.txt --n_kv_head=2 --save=model",
                       "llama --generate --load=stories260K.bin --tokenizer=tok512.bin --prompt='Once upon a time'"};
    return RunLanguageModel(family, argc, argv);
}
