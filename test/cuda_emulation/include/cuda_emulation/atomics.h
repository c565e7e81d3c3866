// Atomic operations, and loads and stores with a word to the cache. One thread of the grid runs at a time, so that
// reading and writing one after the other is enough.
#pragma once

namespace cuda_emulation {

/// Tells the checker, if there is one.
void OnAtomic(const void *address, size_t size, const void *caller);

template <typename T, typename F>
__attribute__((noinline)) CUDA_EMULATION_UNCHECKED T AtomicUpdate(T *address, F &&update) {
    OnAtomic(address, sizeof(T), __builtin_return_address(0));
    const T old = *address;
    *address = update(old);
    return old;
}

// The second argument of an atomic operation is converted to the type of the first.
template <typename T>
using Value = std::common_type_t<T>;

}  // namespace cuda_emulation

template <typename T>
T atomicAdd(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicSub(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return static_cast<T>(old - value); });
}
template <typename T>
T atomicMax(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return std::max<T>(old, value); });
}
template <typename T>
T atomicMin(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return std::min<T>(old, value); });
}
template <typename T>
T atomicOr(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return static_cast<T>(old | value); });
}
template <typename T>
T atomicAnd(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return static_cast<T>(old & value); });
}
template <typename T>
T atomicExch(T *address, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T) { return static_cast<T>(value); });
}
template <typename T>
T atomicCAS(T *address, cuda_emulation::Value<T> expected, cuda_emulation::Value<T> value) {
    return cuda_emulation::AtomicUpdate(address, [&](T old) { return old == expected ? static_cast<T>(value) : old; });
}

template <typename T>
T __ldg(const T *address) {
    return *address;
}
template <typename T>
T __ldcs(const T *address) {
    return *address;
}
template <typename T>
T __ldcg(const T *address) {
    return *address;
}
template <typename T>
void __stcs(T *address, T value) {
    *address = value;
}
template <typename T>
void __stcg(T *address, T value) {
    *address = value;
}
