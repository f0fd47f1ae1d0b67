// Package isoimage writes the small disk images that configure a virtual machine (cloud-init's NoCloud source). The
// driver vmwarevsphere calls mkisofs for that. cmd/mkisofs replaces that program, so the machine image needs no
// distribution.
package isoimage
