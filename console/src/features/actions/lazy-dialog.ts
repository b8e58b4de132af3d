/** Loads the action dialog when it is first opened. */
import { loadOnDemand } from '../../ui/dialog/on-demand.tsx';

export const ActionDialog = loadOnDemand(
  ({ action }) => action !== null,
  async () => (await import('./ActionDialog.tsx')).ActionDialog,
);
