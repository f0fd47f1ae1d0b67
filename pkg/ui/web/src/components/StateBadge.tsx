import type { LinkState, State } from '../api/types';
import { toneOf, type Tone } from '../lib/states';
import { Icon, type IconName } from './Icon';

const icons: Record<Tone, IconName> = {
  good: 'check',
  busy: 'clock',
  bad: 'cross',
  warn: 'alert',
  paused: 'pause',
  off: 'minus',
};

export function ToneIcon({ tone, size }: { tone: Tone; size?: number }) {
  return (
    <span className="tone" data-tone={tone}>
      <Icon name={icons[tone]} size={size} />
    </span>
  );
}

/** A state as icon and word, so that the colour carries nothing alone. */
export function StateBadge({ state }: { state: State | LinkState }) {
  const tone = toneOf(state);
  return (
    <span className="badge" data-tone={tone}>
      <Icon name={icons[tone]} size={14} />
      {state}
    </span>
  );
}
