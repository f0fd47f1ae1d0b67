import type { Cluster } from '../api/types';
import { useMachines, useSynced } from '../live/hooks';
import { isOfHosts, missingRoles } from './registration';
import { RegistrationCommand } from './RegistrationCommand';

/** The registration command on the page of a cluster, while a role has no host. */
export default function MissingHosts({ cluster }: { cluster: Cluster }) {
  const machines = useMachines(cluster.namespace, cluster.name);
  const synced = useSynced('machines');
  const missing = missingRoles(machines);
  if (!synced || !isOfHosts(cluster) || missing.length === 0 || cluster.state === 'Deleting') return null;
  return (
    <section className="card missing-hosts" aria-label="Register a host">
      <div className="card-head">
        <h2>Register a host</h2>
        <span className="dim">
          {machines.length === 0 ? 'The cluster has no hosts yet' : `No host has: ${missing.join(', ')}`}
        </span>
      </div>
      <div className="card-body">
        <RegistrationCommand namespace={cluster.namespace} name={cluster.name} />
      </div>
    </section>
  );
}
