// Marks functions that kernels of .cpp and of .cu files share; .cpp files see no CUDA header.
#pragma once

#ifdef __CUDACC__
#define HG_HOST_DEVICE __host__ __device__
#else
#define HG_HOST_DEVICE
#endif
