// Package distro knows RKE2 and K3s: where they keep their files, how their services are called, which ports they open and
// which configuration keys a release understands.
//
// It holds facts and no behaviour. Other packages ask it instead of spelling a path or a unit name themselves, so that a
// difference between the two distributions is written down once. The package is pure; the table of releases is loaded by
// package releases and arrives here as a [Release] value.
package distro
