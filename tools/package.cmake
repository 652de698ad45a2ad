# What is installed, for programs of others (find_package(HuggingGreen)) and as Debian packages (cpack -G DEB).
# Component `programs`: hgtrain, hgprof and all else without a component; `dev`: libraries and headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/HuggingGreen)

# hg_public(hg_NAME [WITHOUT REGEX] [FILE...]): a library for others, HuggingGreen::NAME. All headers of its
# folder come with it, but those that match REGEX, and FILEs.
function(hg_public target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" WITHOUT "")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} *.h)
  if(arg_WITHOUT)
    list(FILTER headers EXCLUDE REGEX "${arg_WITHOUT}")
  endif()
  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
    FILES ${headers} ${arg_UNPARSED_ARGUMENTS})
  string(REGEX REPLACE "^hg_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(HuggingGreen::${name} ALIAS ${target})
  install(TARGETS ${target} EXPORT HuggingGreen ARCHIVE COMPONENT dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hugginggreen COMPONENT dev)
endfunction()
set_target_properties(hg_flags PROPERTIES EXPORT_NAME flags)
install(TARGETS hg_flags EXPORT HuggingGreen)
install(EXPORT HuggingGreen FILE HuggingGreenTargets.cmake NAMESPACE HuggingGreen::
  DESTINATION ${package_folder} COMPONENT dev)

# hg_needs_library(NAME): who links one of the libraries also links this one of the system.
function(hg_needs_library name)
  set_property(GLOBAL APPEND PROPERTY HG_NEEDED_LIBRARIES ${name})
endfunction()

# At the end of the outermost CMakeLists.txt, when all targets are known.
function(hg_package)
  get_property(HG_LIBRARIES GLOBAL PROPERTY HG_NEEDED_LIBRARIES)
  string(REGEX MATCH "^[0-9]+" HG_FMT_MAJOR "${fmt_VERSION}")
  set(HG_NEEDS_CUDA OFF)
  if(HG_USE_CUDA AND NOT HG_CUDA STREQUAL "APART")
    set(HG_NEEDS_CUDA ON)
  endif()
  set(folder ${PROJECT_BINARY_DIR}/generated/package)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/HuggingGreenConfig.cmake.in
    ${folder}/HuggingGreenConfig.cmake INSTALL_DESTINATION ${package_folder})
  write_basic_package_version_file(${folder}/HuggingGreenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${folder}/HuggingGreenConfig.cmake ${folder}/HuggingGreenConfigVersion.cmake
    DESTINATION ${package_folder} COMPONENT dev)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/hugginggreen
    RENAME copyright)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libhugginggreen-dev RENAME copyright COMPONENT dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/example
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libhugginggreen-dev COMPONENT dev)

  set(CPACK_PACKAGE_NAME hugginggreen)
  set(CPACK_PACKAGE_VENDOR "The HuggingGreen engine authors")
  set(CPACK_PACKAGE_CONTACT "The HuggingGreen engine authors <maintainers@hugginggreen.invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains Vision Transformers and accounts for every FLOP and joule")
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_ALL programs dev)
  if(HG_USE_MPI)
    list(APPEND CPACK_COMPONENTS_ALL mpi)
  endif()
  if(HG_USE_NCCL)
    list(APPEND CPACK_COMPONENTS_ALL nccl)
  endif()
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  # Such a package runs on machines like this one alone: its version says so.
  if(HG_NATIVE)
    set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION}+native)
    set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/tools/package_native.cmake)
  endif()

  set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME hugginggreen)
  set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "dataset-fashion-mnist, hugginggreen-mpi, libhugginggreen-dev")
  set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "hgtrain trains Vision Transformers and compares ways to do so \
by experiments; hgprof profiles them. Energy comes from RAPL and NVML, or from a model where no meter is, and is \
shared out by phase, layer and op.")

  set(CPACK_DEBIAN_MPI_PACKAGE_NAME hugginggreen-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS hugginggreen)
  set(CPACK_COMPONENT_MPI_DESCRIPTION "The module with which hgtrain trains on several machines, under mpirun or \
srun.")

  set(CPACK_DEBIAN_NCCL_PACKAGE_NAME hugginggreen-nccl)
  set(CPACK_DEBIAN_NCCL_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_NCCL_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_NCCL_PACKAGE_DEPENDS "hugginggreen, hugginggreen-mpi")
  set(CPACK_COMPONENT_NCCL_DESCRIPTION "The module with which hgtrain trains on several GPUs, one for each process.")

  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libhugginggreen-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  list(TRANSFORM HG_LIBRARIES REPLACE "(.+)" "lib\\1-dev" OUTPUT_VARIABLE needed)
  list(JOIN needed ", " needed)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libfmt-dev, ${needed}")
  set(CPACK_COMPONENT_DEV_DESCRIPTION "Tensors, autograd, layers of Vision Transformers, data sets, and a ledger \
of energy for programs of your own: headers, static libraries, a CMake package (HuggingGreen) and an example.")
  include(CPack)
endfunction()
