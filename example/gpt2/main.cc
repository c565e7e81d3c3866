// Trains GPT-2 on a text, fine-tunes it, and lets it write. `gpt2 --help` lists the flags.

#include "example/language_model/model_files.h"
#include "example/language_model/program.h"

int main(int argc, char **argv) {
    using namespace infini_train::example;
    ModelFamily family;
    family.name = "gpt2";
    family.summary = "Trains GPT-2 on a text, from nothing or from published weights, and lets it write.";
    family.presets = {"d2",  "d4",  "d6",   "d8",          "d12",        "d24",
                      "d36", "d48", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    family.preset = Gpt2Preset;
    family.examples = {"gpt2 --text=input.txt --save=model",
                       "gpt2 --generate --load=model --prompt='To be' --temperature=0.8",
                       "gpt2 --input_bin='train_*.bin' --input_val_bin=val.bin --model=d12 --sequence_length=1024 "
                       "--batch_size=4 --total_batch_size=524288 --checkpoint_dir=run"};
    return RunLanguageModel(family, argc, argv);
}
