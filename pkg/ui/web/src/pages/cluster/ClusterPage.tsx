import { ActionIcon, Menu, Tabs } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { download, messageOf, objectPath } from '../../api/client';
import { useRefetchOnChange } from '../../api/queries';
import type { Cluster } from '../../api/types';
import { sentence } from '../../components/Command';
import { Icon } from '../../components/Icon';
import { Notice } from '../../components/Notice';
import { Since } from '../../components/Since';
import { StateBadge } from '../../components/StateBadge';
import { announce } from '../../lib/announce';
import { useHasUnsaved } from '../../lib/unsaved';
import { countMachines, toneOf } from '../../lib/states';
import { useCluster, useMachines, useSynced } from '../../live/hooks';
import { useTitle } from '../../layout/Shell';
import { Actions } from './Actions';
import { EventsTab } from './EventsTab';
import { LogTab } from './LogTab';
import { MachinesTab } from './MachinesTab';
import { FollowLine, saysOperation } from './operate/FollowLine';
import { isDeletionOf } from './operate/requests';
import { rowToShow } from './kept';
import { OverviewTab } from './OverviewTab';
import { tabsOf, type Tab } from './search';
import './cluster.css';

const SnapshotsTab = lazy(() => import('./operate/SnapshotsTab'));
const YamlTab = lazy(() => import('./YamlTab'));
const route = getRouteApi('/clusters/$namespace/$name');

/** Which cluster a part of the page is about. */
export interface ClusterName {
  namespace: string;
  name: string;
}

export function ClusterPage() {
  const { namespace, name } = route.useParams();
  useTitle(`${name} in ${namespace}`);
  const cluster = useCluster(namespace, name);
  const synced = useSynced('clusters');
  const wasDeleted = useWasDeleted(cluster, namespace, name);
  const shown = useShown(cluster, namespace, name);
  if (shown)
    return (
      <>
        {!cluster && synced && <Left />}
        <Page key={`${namespace}/${name}`} cluster={shown} />
      </>
    );
  if (!synced) return null;
  if (wasDeleted) return <Gone namespace={namespace} name={name} />;
  return (
    <>
      <h1 className="visually-hidden">{name}</h1>
      <Notice tone="off" action={<Link to="/clusters">Show all clusters</Link>}>
        Cluster{' '}
        <b>
          {namespace}/{name}
        </b>{' '}
        does not exist, or you may not see it.
      </Notice>
    </>
  );
}

/** The row of the cluster, or its last row while the page holds what the user typed. */
function useShown(cluster: Cluster | undefined, namespace: string, name: string): Cluster | undefined {
  const last = useRef<Cluster>(undefined);
  const isUnsaved = useHasUnsaved();
  if (cluster) last.current = cluster;
  // A dialog holds what the user typed, even if it does not say so.
  const hasDialog = document.querySelector('dialog[open]') !== null;
  const shown = rowToShow(cluster, last.current, { namespace, name }, isUnsaved || hasDialog);
  last.current = shown;
  return shown;
}

function Left() {
  return (
    <Notice tone="warn" action={<Link to="/clusters">Show all clusters</Link>}>
      The cluster is gone, or you may no longer see it. The page keeps what you typed.
    </Notice>
  );
}

/** Reports that the cluster of this page was being deleted when its row left. */
function useWasDeleted(cluster: Cluster | undefined, namespace: string, name: string): boolean {
  const key = `${namespace}/${name}`;
  const deleting = useRef('');
  if (cluster) deleting.current = cluster.state === 'Deleting' ? key : '';
  return !cluster && (deleting.current === key || isDeletionOf({ namespace, name }));
}

function Gone({ namespace, name }: ClusterName) {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    title.current?.focus();
    announce(`Cluster ${name} is gone.`);
  }, [name]);
  return (
    <>
      <h1 ref={title} tabIndex={-1} className="gone">
        {name}
      </h1>
      <Notice tone="good" action={<Link to="/clusters">Show all clusters</Link>}>
        Cluster{' '}
        <b>
          {namespace}/{name}
        </b>{' '}
        is gone.
      </Notice>
    </>
  );
}

const labels: Record<Tab, string> = {
  overview: 'Overview',
  machines: 'Machines',
  snapshots: 'Snapshots',
  events: 'Events',
  log: 'Log',
  yaml: 'YAML',
};

function Page({ cluster }: { cluster: Cluster }) {
  const { namespace, name } = cluster;
  useRefetchOnChange(namespace, name);
  useAnnounceState(cluster);
  const { tab = 'overview' } = route.useSearch();
  const navigate = route.useNavigate();
  const count = useMachines(namespace, name).length;
  return (
    <>
      <Header cluster={cluster} />
      <Tabs
        value={tab}
        keepMounted={false}
        className="tabs"
        onChange={(next) => void navigate({ search: { tab: next as Tab }, replace: true, resetScroll: false })}
      >
        <Tabs.List aria-label="Parts of the cluster">
          {tabsOf(cluster).map((t) => (
            <Tabs.Tab key={t} value={t}>
              {labels[t]}
              {t === 'machines' && <span className="count"> {count}</span>}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview">
          <OverviewTab cluster={cluster} />
        </Tabs.Panel>
        <Tabs.Panel value="machines">
          <MachinesTab cluster={cluster} />
        </Tabs.Panel>
        <Tabs.Panel value="snapshots">
          <Suspense>
            <SnapshotsTab cluster={cluster} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <EventsTab namespace={namespace} name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="log">
          <LogTab namespace={namespace} name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="yaml">
          <Suspense>
            <YamlTab namespace={namespace} name={name} />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

function useAnnounceState({ name, state, message }: Cluster) {
  const last = useRef(state);
  useEffect(() => {
    if (last.current !== state) announce(`Cluster ${name} is now ${state}. ${message ?? ''}`);
    last.current = state;
  }, [name, state, message]);
}

function Header({ cluster }: { cluster: Cluster }) {
  const { namespace, name, state } = cluster;
  const machines = useMachines(namespace, name);
  const { ready, wanted } = countMachines(cluster, machines);
  return (
    <header className="cluster-head">
      <nav aria-label="Path" className="path dim">
        <Link to="/clusters">Clusters</Link> <span aria-hidden="true">/</span>{' '}
        <Link to="/clusters" search={{ namespace }}>
          {namespace}
        </Link>
      </nav>
      <div className="cluster-title">
        <h1 className="clip">{name}</h1>
        <StateBadge state={state} />
        <span className="dim">
          for <Since time={cluster.since} />
        </span>
        <div className="grow" />
        <Downloads namespace={namespace} name={name} />
        <Actions cluster={cluster} />
      </div>
      <dl className="cluster-facts">
        <div>
          <dt>Version</dt>
          <dd>{cluster.version ?? 'unknown'}</dd>
        </div>
        <div>
          <dt>Distribution</dt>
          <dd>{cluster.imported ? 'imported' : (cluster.distribution ?? 'unknown')}</dd>
        </div>
        {!cluster.imported && (
          <div>
            <dt>Machines ready</dt>
            <dd>
              {ready} of {wanted}
            </dd>
          </div>
        )}
        <div>
          <dt>ID</dt>
          <dd className="mono">{cluster.id ?? 'none yet'}</dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>
            <Since time={cluster.created} suffix=" ago" />
          </dd>
        </div>
      </dl>
      <FollowLine cluster={cluster} />
      {cluster.message && !saysOperation(cluster) && (
        <Notice tone={toneOf(state)}>
          {sentence(cluster.message)}
          {cluster.reason && <span className="dim"> · {cluster.reason}</span>}
        </Notice>
      )}
    </header>
  );
}

function Downloads({ namespace, name }: ClusterName) {
  const [note, setNote] = useState('');
  const save = async (what: string, title: string, file: string) => {
    setNote(`Preparing the ${title} …`);
    try {
      await download(objectPath('clusters', namespace, name, what), file);
      setNote('');
    } catch (error) {
      setNote(`No ${title}: ${messageOf(error)}`);
    }
  };
  return (
    <div className="downloads">
      <span role="status" className="dim">
        {note}
      </span>
      <Menu position="bottom-end" width={220}>
        <Menu.Target>
          <ActionIcon variant="default" size="lg" aria-label="Downloads" title="Downloads">
            <Icon name="download" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => save('kubeconfig', 'kubeconfig', `${name}.yaml`)}>Kubeconfig</Menu.Item>
          <Menu.Item onClick={() => save('supportbundle', 'support bundle', `${name}-support-bundle.tar.gz`)}>
            Support bundle
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}
