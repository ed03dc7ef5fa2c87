// Prints every Bloom filter of a file as Arrow C++ reads it: row group, column, header and bitset in hexadecimal.
// Arguments: the file; then for an encrypted one the footer key, and column=key for each column, in hexadecimal.
#include <arrow/io/api.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/encryption/encryption.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <cstdio>
#include <iostream>
#include <string>

static ::arrow::util::SecureString key(const std::string& hex) {
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  }
  return ::arrow::util::SecureString(std::move(bytes));
}

int main(int count, char** arguments) try {
  auto properties = parquet::default_reader_properties();
  if (count > 2) {
    parquet::ColumnPathToDecryptionPropertiesMap columns;
    for (int at = 3; at < count; ++at) {
      std::string pair = arguments[at];
      auto split = pair.find('=');
      auto name = pair.substr(0, split);
      columns[name] = parquet::ColumnDecryptionProperties::Builder(name).key(key(pair.substr(split + 1)))->build();
    }
    properties.file_decryption_properties(parquet::FileDecryptionProperties::Builder()
                                              .footer_key(key(arguments[2]))
                                              ->column_keys(columns)
                                              ->plaintext_files_allowed()
                                              ->build());
  }
  auto reader = parquet::ParquetFileReader::OpenFile(arguments[1], false, properties);
  auto metadata = reader->metadata();
  for (int group = 0; group < metadata->num_row_groups(); ++group) {
    auto filters = reader->GetBloomFilterReader().RowGroup(group);
    for (int column = 0; filters && column < metadata->num_columns(); ++column) {
      auto filter = filters->GetColumnBloomFilter(column);
      if (!filter) continue;
      auto out = ::arrow::io::BufferOutputStream::Create().ValueOrDie();
      filter->WriteTo(out.get());
      auto bytes = out->Finish().ValueOrDie();
      std::cout << group << ' ' << metadata->schema()->Column(column)->path()->ToDotString() << ' ';
      for (int64_t at = 0; at < bytes->size(); ++at) std::printf("%02x", bytes->data()[at]);
      std::fflush(stdout);
      std::cout << std::endl;
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
