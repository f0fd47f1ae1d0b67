package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options are the flags of all commands.
type options struct {
	source, programs, layouts string
	build                     Build
	epoch                     int64
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(`want "root [IMAGE...]", "layout [IMAGE...]" or "push REGISTRY"`)
	}
	var o options
	flags := flag.NewFlagSet("image "+args[0], flag.ContinueOnError)
	flags.StringVar(&o.source, "source", ".", "`folder` of the repository")
	flags.StringVar(&o.programs, "programs", "dist/programs", "`folder` of the built programs")
	flags.StringVar(&o.layouts, "layouts", "dist/image", "`folder` of the layouts, one below it for each image")
	flags.StringVar(&o.build.Version, "version", "dev", "version, also the images' tag")
	flags.StringVar(&o.build.Revision, "revision", "unknown", "commit that the programs were built from")
	flags.StringVar(&o.build.Architecture, "architecture", "amd64", "architecture that the programs were built for")
	flags.Int64Var(&o.epoch, "epoch", 0, "time of everything in the images, in seconds since 1970")
	insecure := flags.Bool("insecure", false, "push by plain HTTP")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	o.build.Created = time.Unix(o.epoch, 0).UTC()
	switch args[0] {
	case "root", "layout":
		chosen, err := named(flags.Args())
		if err != nil {
			return err
		}
		if args[0] == "root" {
			return WriteRoots(chosen, o.source, o.programs, o.build)
		}
		return writeLayouts(chosen, o, out)
	case "push":
		if flags.NArg() == 1 {
			return Push(ctx, o.layouts, flags.Arg(0), *insecure, out)
		}
	}
	return fmt.Errorf(`want "root [IMAGE...]", "layout [IMAGE...]" or "push REGISTRY", got %q`, args)
}

func writeLayouts(chosen []Image, o options, out io.Writer) error {
	for _, image := range chosen {
		digest, err := WriteLayout(o.source, o.layouts, image, o.build)
		if err != nil {
			return fmt.Errorf("assemble %s: %w", image.Name, err)
		}
		fmt.Fprintf(out, "%s:%s@%s\n", image.Repository, o.build.Version, digest)
	}
	return nil
}
