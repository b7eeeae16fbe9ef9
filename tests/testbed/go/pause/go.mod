module mlpack.test/pause

go 1.24.0
