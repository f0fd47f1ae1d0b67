import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Part } from '../../api/types';
import { sentence } from '../../components/Command';
import { Notice } from '../../components/Notice';

/** A card of the page. */
export function Section({
  title,
  note,
  className = '',
  action,
  children,
}: {
  title: string;
  note?: string;
  className?: string;
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className={`card ${className}`} aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        {note && <span className="dim">{note}</span>}
        {action && (
          <>
            <span className="grow" />
            {action}
          </>
        )}
      </div>
      <div className="card-body scroll-x" tabIndex={0} role="group" aria-label={title}>
        {children}
      </div>
    </section>
  );
}

/** Why the user sees no list. */
export const Denied = ({ error }: { error: string }) => <Notice tone="off">{sentence(error)}</Notice>;

interface Column<T> {
  title: string;
  cell: (item: T) => ReactNode;
}

/** A list that the user may be forbidden to read. */
export function PartTable<T>({
  title,
  note,
  action,
  part,
  columns,
  empty,
}: {
  title: string;
  note?: string;
  action?: ReactNode;
  part: Part<T>;
  columns: Column<T>[];
  empty: string;
}) {
  const items = part.error === undefined ? (part.items ?? []) : [];
  return (
    <Section title={title} note={note} action={action}>
      {part.error !== undefined && <Denied error={part.error} />}
      {part.error === undefined && items.length === 0 && <p className="dim">{empty}</p>}
      {items.length > 0 && (
        <table className="plain">
          <thead>
            <tr>
              {columns.map((c) => (
                <th key={c.title}>{c.title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {items.map((item, i) => (
              <tr key={i}>
                {columns.map((c) => (
                  <td key={c.title}>{c.cell(item)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

/** A namespaced name of a cluster as a link. */
export function ClusterLink({ name }: { name: string }) {
  const [namespace = '', cluster = ''] = name.split('/');
  return (
    <Link to="/clusters/$namespace/$name" params={{ namespace, name: cluster }}>
      {name}
    </Link>
  );
}
