# Writes the commit of the sources in FROM to the file TO, as a C++ string; the file stays as it is where
# it already says so, and nothing is compiled again.
set(commit unknown)
if(EXISTS ${FROM}/.git)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0
    git -C ${FROM} describe --always --dirty --exclude=* --abbrev=10
    OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${TO} CONTENT "\"${commit}\"\n")
