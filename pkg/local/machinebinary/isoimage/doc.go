// Package isoimage writes the small disk images by which a virtual machine is told how to configure itself (cloud-init's NoCloud
// source). The driver vmwarevsphere calls mkisofs for that; cmd/mkisofs is that program where it is not installed, so that the machine
// image needs no distribution.
package isoimage
