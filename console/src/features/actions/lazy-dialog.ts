/** Loads the action dialog when it is first opened. */
import { onDemand } from '../../ui/dialog/on-demand.tsx';

export const ActionDialog = onDemand(
  ({ action }) => action !== null,
  async () => (await import('./ActionDialog.tsx')).ActionDialog,
);
