import type { Problem } from '../../api/types';

interface Props {
  value: string;
  onChange: (text: string) => void;
  readOnly: boolean;
  problems?: Problem[];
}

export function YamlEditor({ value, onChange, readOnly }: Props) {
  if (readOnly) return <pre className="output">{value}</pre>;
  return <textarea aria-label="Manifest" value={value} onChange={(e) => onChange(e.currentTarget.value)} rows={24} />;
}
