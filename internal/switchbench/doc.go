package switchbench

// boost is set where the package is built with -tags boost.
var boost func(n int)
