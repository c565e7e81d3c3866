#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gflags/gflags.h>

#include "example/common/flags.h"

// The flags that gpt2 and llama share; flags.cc says what they mean.
DECLARE_string(input_bin);
DECLARE_string(input_val_bin);
DECLARE_string(token_format);
DECLARE_string(text);
DECLARE_double(val_fraction);
DECLARE_string(tokenizer);
DECLARE_int64(stride);
DECLARE_bool(shuffle);
DECLARE_int32(num_workers);
DECLARE_int32(prefetch);

DECLARE_string(model);
DECLARE_int64(n_layer);
DECLARE_int64(n_head);
DECLARE_int64(n_kv_head);
DECLARE_int64(n_embd);
DECLARE_int64(n_hidden);
DECLARE_int64(vocab_size);
DECLARE_bool(bias);
DECLARE_double(dropout);
DECLARE_string(load);
DECLARE_string(save);

DECLARE_int64(batch_size);
DECLARE_int64(sequence_length);
DECLARE_int64(total_batch_size);
DECLARE_int64(num_iteration);
DECLARE_int64(max_tokens);
DECLARE_double(learning_rate);
DECLARE_string(lr_schedule);
DECLARE_int64(warmup_iters);
DECLARE_int64(lr_decay_iters);
DECLARE_double(min_lr);
DECLARE_int64(lr_step_size);
DECLARE_double(lr_gamma);
DECLARE_double(weight_decay);
DECLARE_double(beta1);
DECLARE_double(beta2);
DECLARE_double(grad_clip);
DECLARE_string(dtype);
DECLARE_bool(checkpoint_activations);
DECLARE_uint64(seed);

DECLARE_int64(val_loss_every);
DECLARE_int64(val_max_steps);
DECLARE_int64(patience);
DECLARE_int64(sample_every);

DECLARE_string(checkpoint_dir);
DECLARE_int64(checkpoint_every);
DECLARE_int32(keep);
DECLARE_bool(resume);

DECLARE_bool(generate);
DECLARE_string(prompt);
DECLARE_int64(text_length);
DECLARE_int32(num_samples);
DECLARE_double(temperature);
DECLARE_int64(top_k);
DECLARE_double(top_p);
DECLARE_double(repetition_penalty);
DECLARE_bool(greedy);
DECLARE_int64(num_beams);
DECLARE_double(length_penalty);

DECLARE_string(device);
DECLARE_bool(cuda_graph);
DECLARE_int32(threads);
DECLARE_string(out);
DECLARE_string(tensorboard);
DECLARE_bool(summary);
DECLARE_string(profile);
DECLARE_bool(nan_guard);

namespace infini_train::example {

/// The groups of --help.
std::vector<FlagGroup> LanguageModelFlagGroups();

/// Takes InfiniTrain's other names over and checks all values. Throws UsageError.
void CheckLanguageModelFlags();

/// Whether the command line has set the flag.
bool IsGiven(const std::string &flag);

/// The flags that decide what a training computes, for a checkpoint: name to value.
std::map<std::string, std::string> TrainingFlags();

/// Takes the flags of a checkpoint over where the command line doesn't set them. Throws UsageError where it sets one
/// to another value that a run can't change on its way; those that only say how long it goes on may differ.
void AdoptFlags(const std::map<std::string, std::string> &saved);

/// Steps that --num_iteration or --max_tokens ask for.
int64_t NumIterations();
/// Tokens of one step, and in how many batches they come.
int64_t TokensPerStep();
int64_t AccumulationSteps();

/// `a,b,c` without empty parts.
std::vector<std::string> SplitList(const std::string &text);

}  // namespace infini_train::example
