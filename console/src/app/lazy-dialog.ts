/** Loads the keyboard help when it is first opened. */
import { loadOnDemand } from '../ui/dialog/on-demand.tsx';

export const KeyboardHelp = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./KeyboardHelp.tsx')).KeyboardHelp,
);
