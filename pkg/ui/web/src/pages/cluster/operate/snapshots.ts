import type { Tone } from '../../../lib/states';
import type { Snapshot } from './types';

/** A size for users: 0.1 MiB, 12.5 MiB, 3.2 GiB. */
export function sizeText(bytes: number | undefined): string {
  if (!bytes || bytes < 0) return 'unknown';
  const mebi = bytes / 2 ** 20;
  return mebi < 1024 ? `${Math.max(mebi, 0.1).toFixed(1)} MiB` : `${(mebi / 1024).toFixed(1)} GiB`;
}

const tones: Record<string, Tone> = { Successful: 'good', Failed: 'bad', Missing: 'warn' };

export const toneOfSnapshot = ({ state }: Snapshot): Tone => tones[state] ?? 'off';

/** The parts of the spec that can go back with the data. */
export const restoreModes = ['none', 'kubernetesVersion', 'all'] as const;
export type RestoreMode = (typeof restoreModes)[number];

/** Why a part cannot go back with this snapshot. It is empty if it can. */
export function missingFor(mode: RestoreMode, { version, hasConfig }: Snapshot): string {
  if (mode === 'kubernetesVersion' && !version) return 'The snapshot does not hold the version.';
  if (mode === 'all' && !hasConfig) return 'The snapshot does not hold the configuration.';
  return '';
}
