import { useEvents } from '../../api/queries';
import type { ObjectEvent } from '../../api/types';
import { Failure } from '../../components/Notice';
import { Since } from '../../components/Since';
import { ToneIcon } from '../../components/StateBadge';
import type { ClusterName } from './ClusterPage';
import { Placeholder } from './OverviewTab';

/** The Events of the Cluster, its objects of Cluster API and its Machines, newest first. */
export function EventsTab({ namespace, name }: ClusterName) {
  const { data, error, refetch } = useEvents(namespace, name);
  if (!data) return error ? <Failure error={error} retry={refetch} /> : <Placeholder lines={6} />;
  const items = data.items ?? [];
  if (items.length === 0) return <p className="empty">No Events. Kubernetes keeps them for an hour.</p>;
  return (
    <ul className="card events" aria-label="Events">
      {items.map((event) => (
        <EventLine key={`${event.object} ${event.reason} ${event.first} ${event.message}`} event={event} />
      ))}
    </ul>
  );
}

function EventLine({ event }: { event: ObjectEvent }) {
  return (
    <li>
      <span className="with-icon">
        <ToneIcon tone={event.type === 'Warning' ? 'warn' : 'off'} size={14} />
        {event.type}
      </span>
      <span className="dim event-time">
        <Since time={event.last} suffix=" ago" />
        {event.count > 1 && `, ${event.count} times`}
      </span>
      <span className="event-text">
        <b>{event.reason}</b> {event.message} <span className="dim">{event.object}</span>
      </span>
    </li>
  );
}
