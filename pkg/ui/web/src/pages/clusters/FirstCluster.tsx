import { Command } from '../../components/Command';
import { Icon } from '../../components/Icon';
import { CreateButton } from './CreateButton';

const manifest = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  namespace: fleet-default
spec:
  kubernetesVersion: v1.36.2+rke2r1
  rkeConfig: {}
`;

/** What a user sees before the first cluster exists. */
export function FirstCluster() {
  return (
    <section className="first">
      <Icon name="server" size={32} />
      <h1>No clusters yet</h1>
      <CreateButton />
      <p className="dim">This manifest makes a cluster of existing hosts. Save it as cluster.yaml and apply it.</p>
      <Command text={manifest} label="Copy the manifest" />
      <Command text="kubectl apply -f cluster.yaml" />
      <p className="dim">The cluster appears here at once. Its page then shows what it waits for.</p>
      <p className="dim">To try Drover with simulated hosts on one machine, run this in a copy of its repository:</p>
      <Command text="make quickstart" />
    </section>
  );
}
