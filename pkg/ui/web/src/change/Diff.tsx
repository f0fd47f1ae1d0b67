import { useMemo } from 'react';
import { diffLines, folded } from './diff';
import './change.css';

const signs = { same: ' ', removed: '-', added: '+' };

/** The lines that two texts do not share, with some lines around them. */
export function Diff({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => folded(diffLines(before, after)), [before, after]);
  if (before === after) return <p className="dim">The text has no difference.</p>;
  return (
    <pre className="diff" tabIndex={0} role="region" aria-label="Difference">
      {lines.map((line, i) =>
        line ? (
          <div key={i} data-kind={line.kind}>
            {signs[line.kind]} {line.text}
          </div>
        ) : (
          <div key={i} data-kind="gap">
            …
          </div>
        ),
      )}
    </pre>
  );
}
