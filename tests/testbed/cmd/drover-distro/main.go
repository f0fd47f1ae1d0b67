// Command drover-distro is the stand-in for RKE2 and K3s on the lab's machines. Its installed name, rke2 or k3s,
// selects the distribution. "drover-distro image" makes the installer image.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// kubePath is where the installer puts the components.
const kubePath = "/usr/local/bin/drover-kube"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	name := filepath.Base(os.Args[0])
	version, err := unpack()
	if err == nil {
		err = command(name, version).ExecuteContext(ctx)
	} else {
		fmt.Fprintln(os.Stderr, name+":", err)
	}
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// unpack installs the components that the program contains, and returns its version. A program from an installer image
// contains none, and returns "".
func unpack() (version string, err error) {
	payload, err := distro.OpenPayload("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer func() { _ = payload.Close() }()
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		return payload.Version, nil
	}
	return payload.Version, payload.Unpack(kubePath)
}

// command returns the command line of a program with this name. Version is "" if the program does not contain it.
func command(name, version string) *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: "Stand-in for RKE2 and K3s in Drover's tests", SilenceUsage: true, Version: version,
	}
	root.SetVersionTemplate("{{.Name}} version {{.Version}} (stand-in)\n")
	switch runtime := distro.Runtime(name); runtime {
	case distro.RKE2, distro.K3s:
		root.AddCommand(
			serverCommand(runtime), snapshotCommand(runtime),
			&cobra.Command{Use: "agent", Short: "Run a worker", Args: cobra.NoArgs,
				RunE: node(runtime, distro.RunAgent)},
			certificateCommand(runtime), secretsEncryptCommand(runtime),
		)
		if runtime == distro.K3s {
			root.AddCommand(kubectlCommand())
		}
	default:
		root.AddCommand(imageCommand())
	}
	return root
}

// kubectlCommand is "k3s kubectl".
func kubectlCommand() *cobra.Command {
	return &cobra.Command{Use: "kubectl", Short: "Run kubectl", DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return syscall.Exec(kubePath, append([]string{"kubectl"}, args...), os.Environ())
		}}
}

func node(runtime distro.Runtime, run func(context.Context, distro.Options) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, _ []string) error {
		options, err := optionsOf(runtime, cmd)
		if err != nil {
			return err
		}
		return run(cmd.Context(), options)
	}
}

func optionsOf(runtime distro.Runtime, cmd *cobra.Command) (distro.Options, error) {
	version := cmd.Root().Version
	if version == "" {
		data, err := os.ReadFile("/usr/local/bin/." + string(runtime) + ".version")
		if err != nil {
			return distro.Options{}, fmt.Errorf("read installed version: %w", err)
		}
		version = strings.TrimSpace(string(data))
	}
	return distro.Options{
		Runtime: runtime, Version: version, Kube: kubePath, Log: cmd.ErrOrStderr(), Ready: notifyReady,
	}, nil
}

// notifyReady notifies systemd that the unit is up.
func notifyReady() {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("READY=1"))
}

func imageCommand() *cobra.Command {
	var dir, version, program, kube string
	cmd := &cobra.Command{Use: "image", Short: "Write the installer image into a folder", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !strings.Contains(version, "+k3s") && !strings.Contains(version, "+rke2") {
				return errors.New("--version must be a version of RKE2 or K3s, as v1.36.3+k3s1")
			}
			file, err := distro.BuildImage(dir, distro.RuntimeOf(version), version, program, kube)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), file)
			}
			return err
		}}
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write to")
	cmd.Flags().StringVar(&version, "version", "", "version to report, as v1.36.3+k3s1")
	cmd.Flags().StringVar(&program, "program", "", "path of drover-distro")
	cmd.Flags().StringVar(&kube, "kube", "", "path of drover-kube")
	for _, name := range []string{"dir", "version", "program", "kube"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}
