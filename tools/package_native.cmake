# Read by cpack in a build for this machine alone.
message(WARNING "This build has HG_NATIVE=ON: its packages run on CPUs like this machine's alone. For others: \
cmake --preset package && cmake --build --preset package && cpack --preset package")
