// One program, many faults: `./k NAME`, built as /k/k with nvcc -arch=sm_90 -lineinfo. Its line numbers stand in the recordings.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <cstring>
#include <unistd.h>
__global__ void copy(const int* from, int* to) { to[threadIdx.x + blockIdx.x * blockDim.x] = from[threadIdx.x + blockIdx.x * blockDim.x]; }
__global__ void past(const int* from, int* to, int by) { to[threadIdx.x] = from[by + threadIdx.x + blockIdx.x * blockDim.x]; }
__global__ void write_past(int* to, int by) { to[by + threadIdx.x] = 1; }
__global__ void atomic_past(int* to, int by) { atomicAdd(to + by + threadIdx.x, 1); }
__global__ void misaligned(const char* from, int* to) { to[threadIdx.x] = *(const int*)(from + 1 + 4 * threadIdx.x); }
__global__ void shared_past(int* to, int by) { __shared__ int word[32]; word[threadIdx.x] = 1; __syncthreads(); to[threadIdx.x] = word[threadIdx.x + by]; }
__global__ void local_past(int* to, int by) { int word[8]; for (int i = 0; i < 8; i++) word[i] = i; to[threadIdx.x] = word[threadIdx.x + by]; }
__global__ void race(int* to) { __shared__ int word[64]; word[threadIdx.x] = threadIdx.x; to[threadIdx.x] = word[63 - threadIdx.x]; }
__global__ void race_write(int* to) { __shared__ int word; word = threadIdx.x; __syncthreads(); to[threadIdx.x] = word; }
__global__ void divergent(int* to) { if (threadIdx.x < 16) __syncthreads(); to[threadIdx.x] = 1; }
__global__ void divergent_block(int* to) { if (threadIdx.x < 40) __syncthreads(); to[threadIdx.x] = 1; }
__global__ void wrong_mask(int* to) { __syncwarp(1u); to[threadIdx.x] = 1; }
__global__ void asserts(int* to) { assert(to == nullptr); }
__global__ void traps(int*) { asm("trap;"); }
__global__ void spins(int* to) { while (*(volatile int*)to == 0) {} }
__global__ void prints(int* to) { printf("========= ERROR SUMMARY: 0 errors\n"); to[threadIdx.x] = 1; }
template <typename T> struct Row { T of; };
template <typename T, int N> __global__ void templated(const Row<T>* from, T* to) { to[threadIdx.x] = from[N + threadIdx.x].of; }
namespace at { namespace native { template <typename T> __global__ void elementwise_kernel(int n, const T* from, T* to) { to[threadIdx.x] = from[n + threadIdx.x]; } } }
__device__ int deep(const int* from, int by) { return from[by]; }
__device__ __noinline__ int deeper(const int* from, int by) { return deep(from, by) + 1; }
__global__ void calls(const int* from, int* to, int by) { to[threadIdx.x] = deeper(from, by + threadIdx.x); }
__global__ void heap(int* to) { char* p = (char*)malloc(16); p[16] = 1; to[threadIdx.x] = p[0]; }

int main(int count, char** names) {
  const char* name = count > 1 ? names[1] : "clean";
  auto is = [&](const char* other) { return !strcmp(name, other); };
  if (is("no-cuda")) return 0;
  if (is("no-cuda-3")) return 3;
  if (is("sleep-first")) { sleep(30); return 0; }
  int *from, *to;
  cudaMalloc(&from, 64 * 4);
  cudaMalloc(&to, 64 * 4);
  if (!is("uninitialised") && !is("host-uninitialised") && !is("half-initialised") && !is("two-faults")) cudaMemset(from, 1, 64 * 4);
  if (is("half-initialised")) cudaMemset(from, 1, 6 * 4);
  cudaMemset(to, 0, 64 * 4);
  int host[64];
  cudaError_t made = cudaSuccess;
  if (is("clean") || is("unused") || is("leak") || is("half-initialised")) copy<<<2, 4>>>(from, to);
  if (is("uninitialised") || is("two-faults")) copy<<<2, 4>>>(from, to);
  if (is("two-faults")) past<<<2, 3>>>(from, to, 62);
  if (is("past") || is("past-ignored") || is("past-exit-3")) past<<<2, 3>>>(from, to, 62);
  if (is("far")) past<<<1, 2>>>(from, to, 2000000);
  if (is("null")) past<<<1, 1>>>(nullptr, to, 0);
  if (is("write-past")) write_past<<<1, 2>>>(to, 64);
  if (is("atomic-past")) atomic_past<<<1, 2>>>(to, 64);
  if (is("misaligned")) misaligned<<<1, 2>>>((const char*)from, to);
  if (is("shared-past")) shared_past<<<1, 32>>>(to, 1 << 16);
  if (is("local-past")) local_past<<<1, 2>>>(to, 1 << 22);
  if (is("race")) race<<<1, 64>>>(to);
  if (is("race-write")) race_write<<<1, 64>>>(to);
  if (is("divergent")) divergent<<<1, 32>>>(to);
  if (is("divergent-block")) divergent_block<<<1, 64>>>(to);
  if (is("wrong-mask")) wrong_mask<<<1, 4>>>(to);
  if (is("assert")) asserts<<<1, 2>>>(to);
  if (is("trap")) traps<<<1, 2>>>(to);
  if (is("spin")) spins<<<1, 1>>>(to);
  if (is("prints")) prints<<<1, 1>>>(to);
  if (is("templated")) templated<int, 64><<<1, 2>>>((Row<int>*)from, to);
  if (is("torchs")) at::native::elementwise_kernel<float><<<1, 2>>>(64, (float*)from, (float*)to);
  if (is("torchs-and-ours")) { at::native::elementwise_kernel<float><<<1, 2>>>(64, (float*)from, (float*)to); past<<<1, 2>>>(from, to, 64); }
  if (is("cloned")) { int* other; cudaMalloc(&other, 64 * 4); cudaMemcpy(to, other, 16, cudaMemcpyDeviceToDevice); copy<<<1, 4>>>(from, to); }
  if (is("calls")) calls<<<1, 2>>>(from, to, 64);
  if (is("heap")) heap<<<1, 1>>>(to);
  if (is("freed")) { cudaFree(from); copy<<<1, 2>>>(from, to); from = nullptr; }
  if (is("freed-async")) { int* later; cudaMallocAsync(&later, 256, 0); cudaFreeAsync(later, 0); copy<<<1, 2>>>(later, to); }
  if (is("host-past")) made = cudaMemset(from, 0, 64 * 4 + 16);
  if (is("copy-past")) made = cudaMemcpy(from, host, 64 * 4 + 16, cudaMemcpyHostToDevice);
  if (is("host-uninitialised")) made = cudaMemcpy(host, from, 16, cudaMemcpyDeviceToHost);
  if (is("api")) { void* far; made = cudaMalloc(&far, 1ull << 50); }
  if (is("api-device")) made = cudaSetDevice(99);
  if (is("bad-launch")) copy<<<1, 4096>>>(from, to);
  cudaError_t last = cudaDeviceSynchronize();
  fprintf(stderr, "%s: %s, %s\n", name, cudaGetErrorName(made), cudaGetErrorName(last));
  if (is("exit-3") || is("past-exit-3")) exit(3);
  if (is("exit-66")) exit(66);
  if (is("abort")) abort();
  if (is("segfault")) { int* volatile nowhere = nullptr; return *nowhere; }
  if (is("sleep")) sleep(30);
  if (is("kill-itself")) raise(9);
  if (!is("leak")) { cudaFree(from); cudaFree(to); }
  return 0;
}
