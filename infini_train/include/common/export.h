#pragma once

/// Marks the symbols that a shared build of the library offers to its users.
#if defined(__GNUC__)
#define INFINI_TRAIN_EXPORT __attribute__((visibility("default")))
#else
#define INFINI_TRAIN_EXPORT
#endif
