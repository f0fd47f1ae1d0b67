import { useLayoutEffect, useRef } from 'react';
import { ApiError } from '../../api/client';
import { useObjectText } from '../../api/queries';
import { sentence } from '../../components/Command';
import { Failure } from '../../components/Notice';
import type { ClusterName } from './ClusterPage';
import { Placeholder } from './OverviewTab';

/** The provisioning log. It follows the end until the user scrolls up. */
export function LogTab({ namespace, name }: ClusterName) {
  const { data, error, refetch } = useObjectText('clusters', namespace, name, 'logs');
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [data]);
  // A cluster without a log is no failure. The server says why it has none.
  if (data === undefined && error instanceof ApiError && error.status === 404)
    return <p className="empty">{sentence(error.message)}</p>;
  if (data === undefined) return error ? <Failure error={error} retry={refetch} /> : <Placeholder lines={10} />;
  return (
    <>
      {error && <Failure error={error} retry={refetch} />}
      <pre
        ref={box}
        className="output log"
        tabIndex={0}
        role="log"
        aria-label="Provisioning log"
        onScroll={({ currentTarget: e }) => (atEnd.current = e.scrollHeight - e.scrollTop - e.clientHeight < 24)}
      >
        {data || 'The log is empty.'}
      </pre>
    </>
  );
}
