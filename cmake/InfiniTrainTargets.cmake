# infini_train_configure_target(<target>): the language level and the warnings that all of our own targets share.
function(infini_train_configure_target target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${INFINI_TRAIN_WERROR}>:-Werror>)
endfunction()
