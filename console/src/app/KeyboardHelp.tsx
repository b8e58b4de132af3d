/** Lists the keys of the console. */
import { Modal, Table } from '@mantine/core';
import styles from './KeyboardHelp.module.css';
import type { Place } from './navigation.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
  places: Place[];
}

export function KeyboardHelp({ opened, onClose, places }: Props) {
  const rows = [
    { keys: ['/'], effect: 'Search' },
    { keys: ['g', 'i'], effect: 'Find any id' },
    ...places.map(({ key, label }) => ({ keys: ['g', key], effect: `Go to ${label}` })),
    { keys: ['←', '↑', '↓', '→'], effect: 'Move between the cells of the fleet' },
    { keys: ['Esc'], effect: 'Close a dialog' },
    { keys: ['?'], effect: 'Show this help' },
  ];
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard" closeButtonProps={{ 'aria-label': 'Close' }}>
      <Table verticalSpacing={6}>
        <Table.Tbody>
          {rows.map(({ keys, effect }) => (
            <Table.Tr key={effect}>
              <Table.Td w="45%">
                {keys.map((key) => (
                  <kbd key={key} className={styles.key}>
                    {key}
                  </kbd>
                ))}
              </Table.Td>
              <Table.Td>{effect}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
