/** Loads the token dialog when it is first opened. */
import { loadOnDemand } from '../../ui/dialog/on-demand.tsx';

export const TokenDialog = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./TokenDialog.tsx')).TokenDialog,
);
