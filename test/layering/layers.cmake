# The layers, lowest first. A file may include its own layer and those before it:
#
#     common <- core <- tensor <- autograd <- nn <- top (optimizer, data, io, text, utils) <- example
#
# The names are what follows infini_train/include/ or infini_train/src/, without a suffix.
set(LAYER_0_common common)
set(LAYER_1_core core cuda kernels device datatype dtype_dispatch scalar)
set(LAYER_2_tensor tensor)
set(LAYER_3_autograd autograd)
set(LAYER_4_nn nn)
set(LAYER_5_top optimizer grad_scaler lr_scheduler dataset dataloader data io text utils checkpoint precompiled)
set(LAYERS LAYER_0_common LAYER_1_core LAYER_2_tensor LAYER_3_autograd LAYER_4_nn LAYER_5_top)

# layer_of(<variable> <path>): the number of the layer that infini_train/{include,src}/<...> belongs to, or -1.
function(layer_of variable path)
    string(REGEX REPLACE "^infini_train/(include|src)/([^/.]+).*$" "\\2" name "${path}")
    set(${variable} -1 PARENT_SCOPE)
    foreach(layer IN LISTS LAYERS)
        if(name IN_LIST ${layer})
            string(REGEX REPLACE "^LAYER_([0-9]).*$" "\\1" number "${layer}")
            set(${variable} ${number} PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

# What a public header never includes, so that a user needs none of it and compiles quickly.
set(FORBIDDEN_IN_PUBLIC_HEADERS
    "Eigen/" "benchmark/" "cairo" "cublas" "cuda" "dnnl" "fmt/" "gflags/" "glog/" "gtest/" "hwy/" "iostream$" "nccl"
    "nlohmann/" "oneapi/" "omp\\.h" "pcre2" "random$" "regex$" "zlib\\.h")
