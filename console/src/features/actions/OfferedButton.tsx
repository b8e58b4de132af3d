/** A button for one action that the server offers. Actions that end something are red. */
import { Button } from '@mantine/core';
import { isEnding } from './words.ts';

interface Props {
  action: string;
  label: string;
  /** Not the leading button of its group. */
  beside?: boolean;
  onClick: () => void;
}

export const OfferedButton = ({ action, label, beside, onClick }: Props) => (
  <Button
    color={isEnding(action) ? 'red' : undefined}
    variant={isEnding(action) ? 'light' : beside ? 'default' : 'filled'}
    onClick={onClick}
  >
    {label}
  </Button>
);
