package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strconv"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// filesSelected writes this machine's files of machineSelectorFiles. Each comes from a Secret or ConfigMap whose
// authorization annotation names the cluster.
func (m *machinePlan) filesSelected() error {
	for i, entry := range m.spec.MachineSelectorFiles {
		field := fmt.Sprintf("spec.rkeConfig.machineSelectorFiles[%d]", i)
		matches, err := m.selects(field, entry.MachineLabelSelector)
		if err != nil {
			return err
		}
		if !matches {
			continue
		}
		for j, source := range entry.FileSources {
			if err := m.filesOfSource(fmt.Sprintf("%s.fileSources[%d]", field, j), source); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *machinePlan) filesOfSource(field string, source rkev1.ProvisioningFileSource) error {
	switch {
	case source.Secret.Name != "" && source.ConfigMap.Name != "":
		return fmt.Errorf("%s has a Secret and a ConfigMap: set only one of them", field)
	case source.Secret.Name != "":
		field += ".secret"
		secret, err := m.secret(field+".name", m.local(source.Secret.Name))
		if err != nil {
			return err
		}
		return m.filesOfObject(field, "Secret", source.Secret, secret.Data, secret.Annotations)
	case source.ConfigMap.Name != "":
		field += ".configMap"
		object, err := m.configMap(field+".name", m.local(source.ConfigMap.Name))
		if err != nil {
			return err
		}
		return m.filesOfObject(field, "ConfigMap", source.ConfigMap, object.Data, object.Annotations)
	default:
		return nil
	}
}

func (m *machinePlan) filesOfObject(field, kind string, source rkev1.K8sObjectFileSource, data map[string][]byte,
	annotations map[string]string,
) error {
	if !m.authorized(annotations, rkev1.AuthorizedObjectAnnotation) {
		return fmt.Errorf("%s.name: %s %s does not authorize cluster %s: add it to annotation %s",
			field, kind, m.local(source.Name), m.in.ControlPlane.Name, rkev1.AuthorizedObjectAnnotation)
	}
	for i, item := range source.Items {
		field := fmt.Sprintf("%s.items[%d]", field, i)
		file, err := selectedFile(field, source.DefaultPermissions, item, data[item.Key])
		if err != nil {
			return err
		}
		if _, there := data[item.Key]; !there {
			m.warn(ReasonMissingKey, field+".key", "%s %s has no key %s; the file is empty", kind, m.local(source.Name),
				item.Key)
		}
		if slices.ContainsFunc(m.out.Files, func(f plan.File) bool { return f.Path == file.Path }) {
			m.warnSameFile(field+".path", file.Path)
			delete(m.chosen, file.Path)
		}
		m.addFile(file)
		m.chosen[file.Path] = field + ".path"
	}
	return nil
}

// selectedFile checks one item. A missing key gives an empty file.
func selectedFile(field, defaultPermissions string, item rkev1.KeyToPath, content []byte) (plan.File, error) {
	if !path.IsAbs(item.Path) {
		return plan.File{}, fmt.Errorf("%s.path must be absolute", field)
	}
	if item.Hash != "" {
		sum := sha256.Sum256(content)
		if item.Hash != base64.StdEncoding.EncodeToString(sum[:]) {
			return plan.File{},
				fmt.Errorf("%s.hash differs from the content of key %s: it must be the base64 of its SHA-256",
					field, item.Key)
		}
	}
	permissions := cmp.Or(item.Permissions, defaultPermissions)
	if permissions != "" {
		if _, err := strconv.ParseUint(permissions, 8, 12); err != nil {
			return plan.File{}, fmt.Errorf("%s.permissions must be an octal mode such as 644", field)
		}
	}
	file := fileOf(item.Path, content)
	file.Dynamic, file.Permissions = item.Dynamic, permissions
	return file, nil
}
