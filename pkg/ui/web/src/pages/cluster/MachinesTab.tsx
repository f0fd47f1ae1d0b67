import { getRouteApi } from '@tanstack/react-router';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Cluster, Machine, Pool } from '../../api/types';
import { Icon } from '../../components/Icon';
import { Since } from '../../components/Since';
import { StateBadge } from '../../components/StateBadge';
import { useMachines, useSynced } from '../../live/hooks';
import { MachineDetails } from './MachineDetails';
import { listItems, type PoolItem } from './pools';

const route = getRouteApi('/clusters/$namespace/$name');

/** The pools with their machines. It renders only the lines in sight, because pools can have hundreds of machines. */
export function MachinesTab({ cluster }: { cluster: Cluster }) {
  const machines = useMachines(cluster.namespace, cluster.name);
  const synced = useSynced('machines');
  const items = useMemo(() => listItems(cluster, machines), [cluster, machines]);
  const { machine: opened } = route.useSearch();
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(list.current?.offsetTop ?? 0), []);
  const virtualizer = useWindowVirtualizer({
    count: items.length,
    estimateSize: () => 44,
    overscan: 8,
    scrollMargin: top,
    getItemKey: (index) => items[index]!.key,
  });
  const found = items.findIndex((item) => item.key === opened);
  const linked = useRef(opened);
  useLayoutEffect(() => {
    // A link can open a machine that is far down. Later the user scrolls.
    if (linked.current && linked.current === opened && found >= 0) virtualizer.scrollToIndex(found, { align: 'auto' });
    if (found >= 0) linked.current = undefined;
  }, [virtualizer, opened, found]);
  if (items.length === 0)
    return <p className="empty">{synced ? 'This cluster has no machines yet.' : 'Loading machines …'}</p>;
  return (
    <div className="card machines" ref={list}>
      <div style={{ height: virtualizer.getTotalSize(), position: 'relative' }}>
        {virtualizer.getVirtualItems().map(({ key, index, start }) => {
          const item = items[index]!;
          return (
            <div
              key={key}
              data-index={index}
              ref={virtualizer.measureElement}
              className="machine-item"
              style={{ transform: `translateY(${start - top}px)` }}
            >
              {item.kind === 'pool' ? (
                <PoolLine item={item} />
              ) : (
                <MachineLine machine={item.machine} open={item.machine.name === opened} />
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function PoolLine({ item }: { item: PoolItem }) {
  return (
    <div className="pool">
      <h2>{item.pool ? `Pool ${item.pool.name}` : item.title}</h2>
      <span className="dim clip">{rolesOf(item.pool)}</span>
      <span className="grow" />
      {item.pool?.paused && <StateBadge state="Paused" />}
      <span className={item.ready < item.wanted ? 'short' : 'dim'}>
        {item.ready} of {item.wanted} ready
      </span>
    </div>
  );
}

const rolesOf = (pool: Pool | undefined) => (pool?.roles ?? []).join(', ');

function MachineLine({ machine, open }: { machine: Machine; open: boolean }) {
  const navigate = route.useNavigate();
  const toggle = () =>
    void navigate({
      search: (old) => ({ ...old, machine: open ? undefined : machine.name }),
      replace: true,
      resetScroll: false,
    });
  return (
    <>
      <button type="button" className="disclosure machine" aria-expanded={open} onClick={toggle}>
        <Icon name="right" size={12} />
        <StateBadge state={machine.state} />
        <span className="machine-name clip" title={machine.name}>
          {machine.name}
        </span>
        <span className="machine-address clip dim">{machine.addresses?.[0]}</span>
        <span className="machine-version clip dim">{machine.version}</span>
        <span className="machine-since dim">
          <Since time={machine.since} />
        </span>
        <span className="machine-waits clip dim" title={machine.message}>
          {machine.message}
        </span>
      </button>
      {open && <MachineDetails machine={machine} />}
    </>
  );
}
