// Package distro knows RKE2 and K3s: the paths of their files, the names of their services, their ports, and the
// configuration keys of a release.
//
// It contains facts and no behavior. Other packages ask it instead of spelling a path or a unit name, so that each
// difference between the distributions is written once. The package is pure. Package releases loads the table of
// releases and passes it in as a [Release] value.
package distro
