// Package upgrade tells what an upgrade of Drover does to clusters that live, and what it does when it is taken back: nothing.
package upgrade
