/** Loads the token dialog when it is first opened. */
import { onDemand } from '../../ui/dialog/on-demand.tsx';

export const TokenDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./TokenDialog.tsx')).TokenDialog,
);
