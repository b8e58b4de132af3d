/** A button for one action that the server offers. Actions that end something are red. */
import { Button } from '@mantine/core';
import { isEnding } from './words.ts';

interface Props {
  action: string;
  label: string;
  /** Less prominent than the first button of the group. */
  secondary?: boolean;
  onClick: () => void;
}

export const OfferedButton = ({ action, label, secondary, onClick }: Props) => (
  <Button
    color={isEnding(action) ? 'red' : undefined}
    variant={isEnding(action) ? 'light' : secondary ? 'default' : 'filled'}
    onClick={onClick}
  >
    {label}
  </Button>
);
