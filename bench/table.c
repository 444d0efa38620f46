/* table.c - aligned tables: cells are collected, then printed with every column as wide as its widest cell. */
#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 16, CELL_SIZE = 160 };

typedef struct cell {
    bench_tone tone;
    char text[CELL_SIZE];
} cell;

struct bench_table {
    uint32_t column_count;
    char names[MAX_COLUMNS][CELL_SIZE];
    bool left[MAX_COLUMNS];
    cell *cells;
    uint32_t cell_count, cell_capacity;
};

bench_table *bench_table_create(const char *columns)
{
    bench_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    while (*columns && table->column_count < MAX_COLUMNS) {
        size_t length = strcspn(columns, "|");
        uint32_t column = table->column_count++;
        table->left[column] = columns[0] == '<';
        int skip = table->left[column] ? 1 : 0;
        snprintf(table->names[column], CELL_SIZE, "%.*s", (int)length - skip, columns + skip);
        columns += length + (columns[length] == '|');
    }
    return table;
}

void bench_table_destroy(bench_table *table)
{
    if (table)
        free(table->cells);
    free(table);
}

void bench_table_cell(bench_table *table, bench_tone tone, const char *format, ...)
{
    if (!table)
        return;
    if (table->cell_count == table->cell_capacity) {
        uint32_t capacity = table->cell_capacity ? 2 * table->cell_capacity : 64;
        cell *cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells)
            return;
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    cell *next = &table->cells[table->cell_count++];
    next->tone = tone;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(next->text, sizeof next->text, format, arguments);
    va_end(arguments);
}

/* Columns, not bytes: continuation bytes of UTF-8 take no room. */
static int width(const char *text)
{
    int columns = 0;
    for (; *text; text++)
        columns += (*text & 0xC0) != 0x80;
    return columns;
}

static void print_cell(const bench_table *table, uint32_t column, int wide, const char *text, const char *paint,
                       FILE *out)
{
    int gap = wide - width(text);
    bool last = column + 1 == table->column_count;
    if (!table->left[column])
        fprintf(out, "%*s", gap, "");
    fprintf(out, "%s%s%s", paint, text, *paint ? "\033[0m" : "");
    if (table->left[column] && !last)
        fprintf(out, "%*s", gap, "");
    fputs(last ? "\n" : "  ", out);
}

void bench_table_print(const bench_table *table, FILE *out, bool colour)
{
    static const char *const paints[] = {"", "\033[32m", "\033[31m", "\033[2m"};
    int wide[MAX_COLUMNS];
    if (!table || table->column_count == 0)
        return;
    uint32_t columns = table->column_count, rows = table->cell_count / columns;
    for (uint32_t column = 0; column < columns; column++) {
        wide[column] = width(table->names[column]);
        for (uint32_t row = 0; row < rows; row++) {
            int cell_width = width(table->cells[row * columns + column].text);
            if (cell_width > wide[column])
                wide[column] = cell_width;
        }
    }
    for (uint32_t column = 0; column < columns; column++)
        print_cell(table, column, wide[column], table->names[column], colour ? "\033[1m" : "", out);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < columns; column++) {
            const cell *next = &table->cells[row * columns + column];
            print_cell(table, column, wide[column], next->text, colour ? paints[next->tone] : "", out);
        }
}
