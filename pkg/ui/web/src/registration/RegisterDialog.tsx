import { Dialog } from '../components/Dialog';
import type { ActionProps } from '../pages/cluster/action';
import { RegistrationCommand } from './RegistrationCommand';

/** The registration command in a dialog, for more hosts. */
export default function RegisterDialog({ cluster, onClose }: ActionProps) {
  return (
    <Dialog title={`Register a host in ${cluster.name}`} onClose={onClose} wide>
      <RegistrationCommand namespace={cluster.namespace} name={cluster.name} />
    </Dialog>
  );
}
