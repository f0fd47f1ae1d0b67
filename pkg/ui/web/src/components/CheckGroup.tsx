import { useId } from 'react';
import './check-group.css';

interface Props {
  label: string;
  /** The name of the inputs. */
  name?: string;
  choices: readonly { value: string; label: string }[];
  value: readonly string[];
  onChange: (value: string[]) => void;
  error?: string;
}

/** Several choices of a short list. */
export function CheckGroup({ label, name, choices, value, onChange, error }: Props) {
  const id = useId();
  return (
    <fieldset className="check-group" aria-describedby={error ? id : undefined}>
      <legend>{label}</legend>
      <div className="checks">
        {choices.map((choice) => (
          <label key={choice.value}>
            <input
              type="checkbox"
              name={name}
              checked={value.includes(choice.value)}
              aria-invalid={error ? true : undefined}
              onChange={(event) =>
                onChange(
                  event.currentTarget.checked
                    ? [...value, choice.value]
                    : value.filter((other) => other !== choice.value),
                )
              }
            />
            {choice.label}
          </label>
        ))}
      </div>
      {error && (
        <p className="field-error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
  );
}
