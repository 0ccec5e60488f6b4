package kernels

// linked are products whose kernels this program has: none, unless Program made it, with another file in place of this one.
var linked []linkedProduct
