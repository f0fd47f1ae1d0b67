import { Button, Kbd, NativeSelect, TextInput } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import type { State } from '../../api/types';
import { Icon } from '../../components/Icon';
import { ToneIcon } from '../../components/StateBadge';
import { clusterStates, toneOf } from '../../lib/states';
import { useClusters, useMachinesByCluster, useProblems, useSynced } from '../../live/hooks';
import { useTitle } from '../../layout/Shell';
import { ClusterTable } from './ClusterTable';
import { CreateButton } from './CreateButton';
import { FirstCluster } from './FirstCluster';
import { countStates, filterRows, makeRows, valuesOf, type ClusterRow } from './rows';
import type { ClustersSearch } from './search';
import './clusters.css';

const route = getRouteApi('/clusters');

export function ClustersPage() {
  useTitle('Clusters');
  const search = route.useSearch();
  const clusters = useClusters();
  const machines = useMachinesByCluster();
  const synced = useSynced('clusters');
  const unread = useProblems().some((problem) => problem.kind === 'clusters');
  const rows = useMemo(() => makeRows(clusters, machines), [clusters, machines]);
  const { q, namespace, version } = search;
  const filtered = useMemo(() => filterRows(rows, { q, namespace, version }), [rows, q, namespace, version]);
  const shown = useMemo(
    () => (search.state ? filtered.filter((row) => row.cluster.state === search.state) : filtered),
    [filtered, search.state],
  );

  // Clusters that cannot be read are a problem, which the page shows, and not an empty fleet.
  if (synced && clusters.length === 0 && !unread) return <FirstCluster />;
  return (
    <>
      <h1 className="visually-hidden">Clusters</h1>
      <div className="clusters-tools">
        <StateFilter rows={filtered} search={search} />
        <Filters
          search={search}
          namespaces={valuesOf(clusters, 'namespace')}
          versions={valuesOf(clusters, 'version')}
        />
        <CreateButton namespace={namespace} />
      </div>
      <ClusterTable rows={shown} sort={search.sort ?? 'state'} loading={!synced} />
      {synced && shown.length === 0 && clusters.length > 0 && <NoMatch />}
    </>
  );
}

function useSetSearch() {
  const navigate = route.useNavigate();
  return (change: Partial<ClustersSearch>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true, resetScroll: false });
}

/** The count of each state, which is also the filter for it. */
function StateFilter({ rows, search }: { rows: ClusterRow[]; search: ClustersSearch }) {
  const setSearch = useSetSearch();
  const counts = useMemo(() => countStates(rows), [rows]);
  const button = (state: State | undefined, label: string, count: number) => (
    <button
      key={label}
      type="button"
      className="state-filter"
      aria-pressed={search.state === state}
      onClick={() => setSearch({ state: search.state === state ? undefined : state })}
    >
      {state && <ToneIcon tone={toneOf(state)} size={14} />}
      {label}
      <span className="count">{count}</span>
    </button>
  );
  return (
    <div className="state-filters" role="group" aria-label="Show clusters by state">
      {button(undefined, 'All', rows.length)}
      {clusterStates.map((state) => button(state, state, counts.get(state) ?? 0))}
    </div>
  );
}

const chevron = <Icon name="down" size={12} />;

interface FiltersProps {
  search: ClustersSearch;
  namespaces: string[];
  versions: string[];
}

function Filters({ search, namespaces, versions }: FiltersProps) {
  const setSearch = useSetSearch();
  const options = (all: string, values: string[], chosen?: string) => [
    { value: '', label: all },
    // A filter from a link stays visible, even if no cluster has its value.
    ...(chosen && !values.includes(chosen) ? [chosen, ...values] : values),
  ];
  return (
    <div className="filters" role="search">
      <SearchField value={search.q ?? ''} onChange={(q) => setSearch({ q: q || undefined })} />
      <NativeSelect
        aria-label="Namespace"
        rightSection={chevron}
        data={options('All namespaces', namespaces, search.namespace)}
        value={search.namespace ?? ''}
        onChange={(e) => setSearch({ namespace: e.currentTarget.value || undefined })}
      />
      <NativeSelect
        aria-label="Version"
        rightSection={chevron}
        data={options('All versions', versions, search.version)}
        value={search.version ?? ''}
        onChange={(e) => setSearch({ version: e.currentTarget.value || undefined })}
      />
    </div>
  );
}

/** The URL follows the typing after a short pause, because every change of it renders the page. */
function SearchField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  if (value !== known) {
    setKnown(value);
    setText(value);
  }
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onChange(text), 120);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <TextInput
      type="search"
      className="search"
      aria-label="Search clusters"
      placeholder="Search"
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      spellCheck={false}
      leftSection={<Icon name="search" />}
      rightSection={
        text ? undefined : (
          <Kbd size="xs" aria-hidden>
            /
          </Kbd>
        )
      }
    />
  );
}

function NoMatch() {
  const navigate = route.useNavigate();
  return (
    <div className="empty" role="status">
      <p>No cluster matches.</p>
      <Button size="compact-sm" variant="default" mt="sm" onClick={() => void navigate({ search: {} })}>
        Clear the filters
      </Button>
    </div>
  );
}
