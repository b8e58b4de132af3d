/** The fields that some actions need besides a reason. */
import { NumberInput, Radio, Stack } from '@mantine/core';
import { useState } from 'react';
import type { Extras } from './action.ts';
import type { ExtraName } from './words.ts';

const defaultMinutes = 10;

const initialValues: Record<ExtraName, Extras> = {
  seconds: { seconds: defaultMinutes * 60 },
  drain_then: { drain_then: 'hold' },
};

export const initialExtras = (names: readonly ExtraName[]): Extras =>
  Object.assign({}, ...names.map((name) => initialValues[name]));

interface Props {
  name: ExtraName;
  extras: Extras;
  /** Null while the input is invalid. */
  onChange: (extras: Extras | null) => void;
}

const fields: Record<ExtraName, (props: Omit<Props, 'name'>) => React.ReactNode> = {
  seconds: Minutes,
  drain_then: DrainThen,
};

export function ExtraField({ name, ...props }: Props) {
  const Field = fields[name];
  return <Field {...props} />;
}

function Minutes({ extras, onChange }: Omit<Props, 'name'>) {
  const [minutes, setMinutes] = useState<number | string>((extras.seconds ?? 0) / 60);
  return (
    <NumberInput
      label="Extend by"
      suffix=" min"
      min={1}
      max={525_600}
      value={minutes}
      onChange={(value) => {
        setMinutes(value);
        onChange(typeof value === 'number' && value > 0 ? { ...extras, seconds: value * 60 } : null);
      }}
    />
  );
}

const isDrainResult = (value: string): value is 'hold' | 'retire' => value === 'hold' || value === 'retire';

function DrainThen({ extras, onChange }: Omit<Props, 'name'>) {
  return (
    <Radio.Group
      label="When the machine is empty"
      value={extras.drain_then ?? 'hold'}
      onChange={(value) => isDrainResult(value) && onChange({ ...extras, drain_then: value })}
    >
      <Stack gap={6} mt={4}>
        <Radio value="hold" label="Quarantine the machine for inspection" />
        <Radio value="retire" label="Retire the machine: take it down for good" />
      </Stack>
    </Radio.Group>
  );
}
