import { Skeleton } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { getRouteApi, Link } from '@tanstack/react-router';
import { createSortedRowModel, rowSortingFeature, tableFeatures, useTable, type Row } from '@tanstack/react-table';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { memo, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { Icon } from '../../components/Icon';
import { Since } from '../../components/Since';
import { StateBadge } from '../../components/StateBadge';
import { useSynced } from '../../live/hooks';
import { keyOf } from '../../live/store';
import { comparers, type ClusterRow } from './rows';
import type { SortColumn } from './search';

const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });

const titles: Record<SortColumn, string> = {
  state: 'State',
  name: 'Name',
  namespace: 'Namespace',
  version: 'Version',
  machines: 'Machines',
  since: 'Since',
};

const columns = (Object.keys(titles) as SortColumn[]).map((id) => ({
  id,
  header: titles[id],
  accessorFn: (row: ClusterRow) => row,
  sortFn: (a: Row<typeof features, ClusterRow>, b: Row<typeof features, ClusterRow>) =>
    comparers[id](a.original, b.original),
}));

interface Props {
  rows: ClusterRow[];
  /** A column, with "-" in front for descending order. */
  sort: string;
  loading: boolean;
}

/** The table of clusters. It renders only the rows in sight, so thousands of clusters scroll smoothly. */
export function ClusterTable({ rows, sort, loading }: Props) {
  const column = sort.replace(/^-/, '') as SortColumn;
  const descending = sort.startsWith('-');
  const sorting = useMemo(
    () => [{ id: column, desc: descending }, ...(column === 'name' ? [] : [{ id: 'name', desc: false }])],
    [column, descending],
  );
  const table = useTable({ features, columns, data: rows, state: { sorting }, getRowId: (row) => keyOf(row.cluster) });
  return (
    <div className="card table" role="table" aria-label="Clusters" aria-rowcount={rows.length + 1} aria-busy={loading}>
      <div role="rowgroup" className="table-head">
        <div role="row" aria-rowindex={1} className="row head">
          {columns.map(({ id }) => (
            <SortHeader key={id} id={id} active={column === id} descending={descending} />
          ))}
          <div role="columnheader" className="cell-waits">
            Waits for
          </div>
        </div>
      </div>
      {loading && rows.length === 0 ? <Placeholders /> : <Body rows={table.getRowModel().rows} />}
    </div>
  );
}

function SortHeader({ id, active, descending }: { id: SortColumn; active: boolean; descending: boolean }) {
  const navigate = getRouteApi('/clusters').useNavigate();
  const next = active && !descending ? `-${id}` : id;
  const order = descending ? 'descending' : 'ascending';
  return (
    <div role="columnheader" className={`cell-${id}`} aria-sort={active ? order : 'none'}>
      <button
        type="button"
        className="sort"
        onClick={() => void navigate({ search: (old) => ({ ...old, sort: next }), replace: true, resetScroll: false })}
      >
        {titles[id]}
        {active && <Icon name={descending ? 'down' : 'up'} size={12} />}
      </button>
    </div>
  );
}

function Placeholders() {
  return (
    <div role="rowgroup">
      {Array.from({ length: 12 }, (_, i) => (
        <div role="row" className="row placeholder" key={i}>
          <div role="cell">
            <Skeleton height={14} width="80%" />
          </div>
        </div>
      ))}
    </div>
  );
}

const wideRow = 42;
const narrowRow = 84;

function Body({ rows }: { rows: Row<typeof features, ClusterRow>[] }) {
  const narrow = useMediaQuery('(max-width: 860px)', undefined, { getInitialValueInEffect: false });
  const known = useSynced('machines');
  const size = narrow ? narrowRow : wideRow;
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(body.current?.offsetTop ?? 0), [narrow]);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => size,
    overscan: 12,
    scrollMargin: top,
    getItemKey: (index) => rows[index]!.id,
  });
  useLayoutEffect(() => virtualizer.measure(), [virtualizer, size]);
  return (
    <div role="rowgroup" ref={body} className="table-body" style={{ height: virtualizer.getTotalSize() }}>
      {virtualizer.getVirtualItems().map((item) => (
        <ClusterLine
          key={item.key}
          row={rows[item.index]!.original}
          index={item.index}
          top={item.start - top}
          height={size}
          known={known}
        />
      ))}
    </div>
  );
}

interface LineProps {
  row: ClusterRow;
  index: number;
  top: number;
  height: number;
  /** False until the machines have arrived. */
  known: boolean;
}

const ClusterLine = memo(function ClusterLine({ row, index, top, height, known }: LineProps) {
  const { cluster, ready, wanted } = row;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="row line"
      style={{ transform: `translateY(${top}px)`, height }}
    >
      <div role="cell" className="cell-state">
        <StateBadge state={cluster.state} />
      </div>
      <div role="cell" className="cell-name clip">
        <Link
          to="/clusters/$namespace/$name"
          params={{ namespace: cluster.namespace, name: cluster.name }}
          className="row-link"
        >
          {cluster.name}
        </Link>
      </div>
      <div role="cell" className="cell-namespace clip dim">
        {cluster.namespace}
      </div>
      <div role="cell" className="cell-version clip">
        {cluster.version ?? '–'}
      </div>
      <div role="cell" className="cell-machines">
        <span className="visually-hidden">
          {known ? ready : 'unknown'} of {wanted} ready
        </span>
        <span aria-hidden="true" className={known && ready < wanted ? 'short' : undefined}>
          {known ? ready : '–'}/{wanted}
        </span>
      </div>
      <div role="cell" className="cell-since dim">
        <Since time={cluster.since} />
      </div>
      <div role="cell" className="cell-waits clip" title={cluster.message}>
        {cluster.message}
      </div>
    </div>
  );
}, sameLine);

function sameLine(a: LineProps, b: LineProps): boolean {
  return (
    a.row.cluster === b.row.cluster &&
    a.row.ready === b.row.ready &&
    a.row.wanted === b.row.wanted &&
    a.top === b.top &&
    a.height === b.height &&
    a.index === b.index &&
    a.known === b.known
  );
}
