/** Loads the keyboard help when it is first opened. */
import { onDemand } from '../ui/dialog/on-demand.tsx';

export const KeyboardHelp = onDemand(
  ({ opened }) => opened,
  async () => (await import('./KeyboardHelp.tsx')).KeyboardHelp,
);
